
// 32 weights of a row from column 32i on; those after the last column are 0.
fn unpack_WEIGHTS(row: u32, i: u32) -> Values {
    let column = 32u * i;
    if (shape.columns % 32u == 0u) {
        let at = row * shape.columns + column;
        return Values(sixteen_WEIGHTS(at), sixteen_WEIGHTS(at + 16u));
    }
    return Values(ragged_sixteen_WEIGHTS(row, column), ragged_sixteen_WEIGHTS(row, column + 16u));
}

fn ragged_sixteen_WEIGHTS(row: u32, column: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        ragged_WEIGHTS(row, column),
        ragged_WEIGHTS(row, column + 4u),
        ragged_WEIGHTS(row, column + 8u),
        ragged_WEIGHTS(row, column + 12u),
    );
}

fn ragged_WEIGHTS(row: u32, column: u32) -> vec4<f32> {
    let columns = vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u);
    let at = vec4<u32>(row * shape.columns) + min(columns, vec4<u32>(shape.columns - 1u));
    let found = vec4<f32>(weight_WEIGHTS(at.x), weight_WEIGHTS(at.y), weight_WEIGHTS(at.z), weight_WEIGHTS(at.w));
    return select(vec4<f32>(), found, columns < vec4<u32>(shape.columns));
}
