fn store_quad(page: u32, g: u32, values: bool, d4: u32, j: u32, quad: vec4<f32>, largest: f32) {
    let at = quad_at(page, g, values, d4, j);
    let words = bitcast<vec4<u32>>(quad);
    for (var c = 0u; c < 4u; c++) {
        cells[at + c] = words[c];
    }
}
