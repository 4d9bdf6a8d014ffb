fn store_vec4(page: u32, g: u32, values: bool, d4: u32, j: u32, v: vec4<f32>) {
    let at = vec4_at(page, g, values, d4, j);
    kv[at] = pack2x16float(v.xy);
    kv[at + 1u] = pack2x16float(v.zw);
}
