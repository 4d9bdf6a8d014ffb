// F32: a weight is a word. What is behind the last column counts as 0.
fn unpack_WEIGHTS(row: u32, i: u32) -> array<vec4<f32>, 8> {
    var w: array<vec4<f32>, 8>;
    if (shape.columns % 32u == 0u) {
        for (var k = 0u; k < 32u; k++) {
            w[k / 4u][k % 4u] = bitcast<f32>(WEIGHTS[row * shape.columns + 32u * i + k]);
        }
        return w;
    }
    for (var k = 0u; k < 32u; k++) {
        let column = 32u * i + k;
        let word = WEIGHTS[row * shape.columns + min(column, shape.columns - 1u)];
        w[k / 4u][k % 4u] = select(0.0, bitcast<f32>(word), column < shape.columns);
    }
    return w;
}
