
// Products of four rows from `row` on; after the last row of the tensor, of the last row.
fn products_WEIGHTS(row: u32, rows: u32, i: u32, x: X) -> vec4<f32> {
    let each = min(vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(rows - 1u));
    return vec4<f32>(
        product_WEIGHTS(each.x, i, x),
        product_WEIGHTS(each.y, i, x),
        product_WEIGHTS(each.z, i, x),
        product_WEIGHTS(each.w, i, x),
    );
}
