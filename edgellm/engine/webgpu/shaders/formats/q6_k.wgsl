// Q6_K: super-blocks of 256 weights in 210 bytes: sixteen blocks of 16 with an int8 scale each,
// w = d · scale · (q - 32), q in 0 … 63.
//
//     byte  0                    128                 192                 208     210
//           [ q bits 3-0: 128 B  | q bits 5-4: 64 B  | 16 scales (int8)  | d f16 ]
//
// Of each half n of the weights, group g = 0 … 3 of 32: low bits in bytes 64n + 32 (g % 2) + l, low nibble for g < 2,
// else high; bits 5-4 in byte 32n + l, at 2g; scales 8n + 2g and 8n + 2g + 1.
fn block_WEIGHTS(row: u32, i: u32) -> Block {
    let at = row * (shape.columns / 256u * 210u) + i / 8u * 210u;
    let n = i % 8u / 4u;
    let g = i % 4u;
    let scales = signed_bytes(word_WEIGHTS(at + 192u + 8u * n + g / 2u * 4u));
    var block: Block;
    block.d = half_WEIGHTS(at + 208u) * select(scales.xy, scales.zw, g % 2u == 1u);
    var low = eight_words_WEIGHTS(at + 64u * n + 32u * (g % 2u));
    var high = eight_words_WEIGHTS(at + 128u + 32u * n);
    for (var k = 0u; k < 8u; k++) {
        let bits = low[k] >> (4u * (g / 2u)) & 0x0F0F0F0Fu;
        block.q[k] = minus(bits | (high[k] >> (2u * g) & 0x03030303u) << 4u, 32u);
    }
    return block;
}
