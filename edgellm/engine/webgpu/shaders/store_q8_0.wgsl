// `largest` is the largest absolute value of the 32; where it is Inf the scale is, too.
fn store_quad(page: u32, g: u32, values: bool, d4: u32, j: u32, quad: vec4<f32>, largest: f32) {
    let inverse = select(0.0, 127.0 / largest, largest >= 1e-36);
    let q = vec4<u32>(vec4<i32>(round(quad * inverse))) & vec4<u32>(255u);
    cells[quad_at(page, g, values, d4, j)] = q.x | q.y << 8u | q.z << 16u | q.w << 24u;
    if (d4 % 8u == 0u) {
        cells[scale_at(page, g, values, d4, j)] = bitcast<u32>(largest / 127.0);
    }
}
