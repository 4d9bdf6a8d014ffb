// MXFP4: blocks of 32 weights in 17 bytes, w = 2^(e - 128) · twice(q), q a float of 4 bits.
//
//     byte  0      1                                          17
//           [ e u8 | byte j: q(j) low nibble, q(j + 16) high ]
//
// Twice a q is 0, 1, 2, 3, 4, 6, 8 or 12, or with bit 3 the negative of it.
const HALVED_WEIGHTS: bool = false;

fn block_WEIGHTS(row: u32, i: u32) -> Block {
    let at = row * (shape.columns / 32u * 17u) + 17u * i;
    let e = at % 4u * 8u;
    let exponent = WEIGHTS[at / 16u][at / 4u % 4u] >> e & 255u;
    let q = odd_sixteen_WEIGHTS(at + 1u);
    return Block(
        twice_float4(q & vec4<u32>(0x0F0F0F0Fu)),
        twice_float4(q >> vec4<u32>(4u) & vec4<u32>(0x0F0F0F0Fu)),
        vec2<f32>(bitcast<f32>(select((exponent - 1u) << 23u, 0x00200000u << exponent, exponent < 2u))),
        0.0,
    );
}

// The 16 bytes from any offset on.
fn odd_sixteen_WEIGHTS(at: u32) -> vec4<u32> {
    let i = at / 16u;
    let even = shifted(WEIGHTS[i], WEIGHTS[i + 1u], vec4<u32>(), at);
    let next = vec4<u32>(even.first.yzw, even.last.x);
    return select(even.first, even.first >> vec4<u32>(8u) | next << vec4<u32>(24u), at % 2u == 1u);
}
