fn store_vec4(page: u32, g: u32, values: bool, d4: u32, j: u32, v: vec4<f32>) {
    let at = vec4_at(page, g, values, d4, j);
    let words = bitcast<vec4<u32>>(v);
    kv[at] = words.x;
    kv[at + 1u] = words.y;
    kv[at + 2u] = words.z;
    kv[at + 3u] = words.w;
}
