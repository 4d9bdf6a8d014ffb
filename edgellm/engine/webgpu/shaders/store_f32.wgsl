fn store_quad(page: u32, g: u32, values: bool, d4: u32, j: u32, quad: vec4<f32>) {
    let at = quad_at(page, g, values, d4, j);
    let words = bitcast<vec4<u32>>(quad);
    kv[at] = words.x;
    kv[at + 1u] = words.y;
    kv[at + 2u] = words.z;
    kv[at + 3u] = words.w;
}
