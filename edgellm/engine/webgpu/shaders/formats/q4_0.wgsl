// Q4_0: blocks of 32 weights in 18 bytes, w = d · (q - 8), q in 0 … 15.
//
//     byte  0       2                                          18
//           [ d f16 | byte j: q(j) low nibble, q(j + 16) high ]
fn unpack_WEIGHTS(row: u32, i: u32) -> array<vec4<f32>, 8> {
    let block = row * (shape.columns / 32u * 18u) + 18u * i;
    let d = half_WEIGHTS(block);
    var w: array<vec4<f32>, 8>;
    for (var k = 0u; k < 4u; k++) {
        let word = word_WEIGHTS(block + 2u + 4u * k);
        w[k] = d * (bytes(word & 0x0F0F0F0Fu) - 8.0);
        w[k + 4u] = d * (bytes(word >> 4u & 0x0F0F0F0Fu) - 8.0);
    }
    return w;
}
