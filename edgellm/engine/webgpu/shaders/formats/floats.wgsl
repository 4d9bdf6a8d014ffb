
fn product_WEIGHTS(row: u32, i: u32, h: ptr<function, array<vec4<f32>, 8>>, sum: f32) -> f32 {
    var w = unpack_WEIGHTS(row, i);
    var products = vec4<f32>();
    for (var k = 0u; k < 8u; k++) {
        products = fma(w[k], (*h)[k], products);
    }
    return dot(products, vec4<f32>(1.0));
}
