// Q4_0: blocks of 32 weights in 18 bytes, w = d · (q - 8), q in 0 … 15.
//
//     byte  0       2                                          18
//           [ d f16 | byte j: q(j) low nibble, q(j + 16) high ]
fn block_WEIGHTS(row: u32, i: u32) -> Block {
    let at = row * (shape.columns / 32u * 18u) + 18u * i;
    var block: Block;
    block.d = vec2<f32>(half_WEIGHTS(at));
    for (var k = 0u; k < 4u; k++) {
        let word = word_WEIGHTS(at + 2u + 4u * k);
        block.q[k] = minus(word & 0x0F0F0F0Fu, 8u);
        block.q[k + 4u] = minus(word >> 4u & 0x0F0F0F0Fu, 8u);
    }
    return block;
}
