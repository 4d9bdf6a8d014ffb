// Q4_K: super-blocks of 256 weights in 144 bytes: eight blocks of 32 with a 6-bit scale and a 6-bit minimum each,
// w = d · scale · q - dmin · minimum, q in 0 … 15. `scale_and_minimum` tells how the scales lie.
//
//     byte  0       2          4                 16                          144
//           [ d f16 | dmin f16 | scales, minima  | q: 4 groups of 32 bytes ]
//
//     group g   low nibbles are block 2g, high nibbles block 2g + 1
fn unpack_WEIGHTS(row: u32, i: u32) -> array<vec4<f32>, 8> {
    let block = row * (shape.columns / 256u * 36u) + i / 8u * 36u;
    let j = i % 8u;
    let scale = scale_and_minimum(vec3<u32>(WEIGHTS[block + 1u], WEIGHTS[block + 2u], WEIGHTS[block + 3u]), j);
    let times = unpack2x16float(WEIGHTS[block]) * scale;
    var w: array<vec4<f32>, 8>;
    for (var k = 0u; k < 8u; k++) {
        let word = WEIGHTS[block + 4u + 8u * (j / 2u) + k];
        w[k] = times.x * bytes(word >> (4u * (j % 2u)) & 0x0F0F0F0Fu) - times.y;
    }
    return w;
}
