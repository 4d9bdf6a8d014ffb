// Q4_0: blocks of 32 weights in 18 bytes, w = d · (q - 8), q in 0 … 15.
//
//     byte  0       2                                          18
//           [ d f16 | byte j: q(j) low nibble, q(j + 16) high ]
const HALVED_WEIGHTS: bool = false;

fn block_WEIGHTS(row: u32, i: u32) -> Block {
    let at = row * (shape.columns / 32u * 18u) + 18u * i;
    let q = sixteen_WEIGHTS(at + 2u);
    let low = q & vec4<u32>(0x0F0F0F0Fu);
    let high = q >> vec4<u32>(4u) & vec4<u32>(0x0F0F0F0Fu);
    return Block(minus(low, 8u), minus(high, 8u), vec2<f32>(half_WEIGHTS(at)), 0.0);
}
