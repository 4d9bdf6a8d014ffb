// Q6_K: super-blocks of 256 weights in 210 bytes: sixteen blocks of 16 with an int8 scale each,
// w = d · scale · (q - 32), q in 0 … 63.
//
//     byte  0                    128                 192                 208     210
//           [ q bits 3-0: 128 B  | q bits 5-4: 64 B  | 16 scales (int8)  | d f16 ]
//
// Of each half n of the weights, group g = 0 … 3 of 32: low bits in bytes 64n + 32 (g % 2) + l, low nibble for g < 2,
// else high; bits 5-4 in byte 32n + l, at 2g; scales 8n + 2g and 8n + 2g + 1.
const HALVED_WEIGHTS: bool = true;

fn block_WEIGHTS(row: u32, i: u32) -> Block {
    let at = row * (shape.columns / 256u * 210u) + i / 8u * 210u;
    let n = i % 8u / 4u;
    let g = i % 4u;
    let low = bytes_WEIGHTS(at + 64u * n + 32u * (g % 2u));
    let high = bytes_WEIGHTS(at + 128u + 32u * n);
    let scales = vec2<f32>(unpack4xI8(two_WEIGHTS(at + 192u + 8u * n + 2u * g)).xy);
    return Block(
        six_bits_WEIGHTS(low.first, high.first, g),
        six_bits_WEIGHTS(low.last, high.last, g),
        half_WEIGHTS(at + 208u) * scales,
        0.0,
    );
}

fn six_bits_WEIGHTS(low: vec4<u32>, high: vec4<u32>, g: u32) -> vec4<u32> {
    let bits = low >> vec4<u32>(4u * (g / 2u)) & vec4<u32>(0x0F0F0F0Fu);
    let above = high >> vec4<u32>(2u * g) & vec4<u32>(0x03030303u);
    return minus(bits | above << vec4<u32>(4u), 32u);
}
