fn store_quad(page: u32, g: u32, values: bool, d4: u32, j: u32, quad: vec4<f32>) {
    let at = quad_at(page, g, values, d4, j);
    kv[at] = pack2x16float(quad.xy);
    kv[at + 1u] = pack2x16float(quad.zw);
}
