// Q5_0: blocks of 32 weights in 22 bytes, w = d · (q - 16), q in 0 … 31.
//
//     byte  0       2              6                                          22
//           [ d f16 | bit j: q(j)'s fifth | byte j: q(j) low nibble, q(j + 16) high ]
const HALVED_WEIGHTS: bool = false;

fn block_WEIGHTS(row: u32, i: u32) -> Block {
    let at = row * (shape.columns / 32u * 22u) + 22u * i;
    let bytes = bytes_WEIGHTS(at + 2u);
    let q = vec4<u32>(bytes.first.yzw, bytes.last.x);
    let low = q & vec4<u32>(0x0F0F0F0Fu) | fifth_bits(bytes.first.x);
    let high = q >> vec4<u32>(4u) & vec4<u32>(0x0F0F0F0Fu) | fifth_bits(bytes.first.x >> 16u);
    return Block(minus(low, 16u), minus(high, 16u), vec2<f32>(half_WEIGHTS(at)), 0.0);
}
