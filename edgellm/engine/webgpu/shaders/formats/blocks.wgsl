
fn unpack_WEIGHTS(row: u32, i: u32) -> array<vec4<f32>, 8> {
    var block = block_WEIGHTS(row, i);
    var w: array<vec4<f32>, 8>;
    for (var k = 0u; k < 8u; k++) {
        w[k] = block.d[k / 4u] * signed_bytes(block.q[k]) - block.m;
    }
    return w;
}

fn product_WEIGHTS(row: u32, i: u32, h: ptr<function, array<vec4<f32>, 8>>, sum: f32) -> f32 {
    var block = block_WEIGHTS(row, i);
    var halves = vec2<f32>();
    for (var k = 0u; k < 8u; k++) {
        halves[k / 4u] += dot(signed_bytes(block.q[k]), (*h)[k]);
    }
    return dot(block.d, halves) - block.m * sum;
}
