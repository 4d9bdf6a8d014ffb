// Q8_0: blocks of 32 weights in 34 bytes, w = d · q.
//
//     byte  0       2                      34
//           [ d f16 | q0 q1 … q31 (int8) ]
fn unpack_WEIGHTS(row: u32, i: u32) -> array<vec4<f32>, 8> {
    let block = row * (shape.columns / 32u * 34u) + 34u * i;
    let d = half_WEIGHTS(block);
    var w: array<vec4<f32>, 8>;
    for (var k = 0u; k < 8u; k++) {
        w[k] = d * signed_bytes(word_WEIGHTS(block + 2u + 4u * k));
    }
    return w;
}
