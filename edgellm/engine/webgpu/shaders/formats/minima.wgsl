
// A super-block of 256 weights in eight blocks of 32, which have a 6-bit scale and a 6-bit minimum each:
// w = d · scale · q - dmin · minimum. See `scale_and_minimum` for the layout of the scales.
//
//     byte  0       2          4                16
//           [ d f16 | dmin f16 | scales, minima | FIFTH vec4 of fifth bits | low bits of q: 4 groups of 32 bytes ]
//
//     group g   low nibbles are block 2g, high nibbles block 2g + 1
const HALVED_WEIGHTS: bool = false;

fn block_WEIGHTS(row: u32, i: u32) -> Block {
    let at = (shape.columns / 256u * row + i / 8u) * (9u + FIFTH_WEIGHTS);
    let j = i % 8u;
    let head = WEIGHTS[at];
    let low = at + 1u + FIFTH_WEIGHTS + 2u * (j / 2u);
    let nibble = vec4<u32>(4u * (j % 2u));
    let first = WEIGHTS[low] >> nibble & vec4<u32>(0x0F0F0F0Fu) | fifth_WEIGHTS(at, j, 0u);
    let last = WEIGHTS[low + 1u] >> nibble & vec4<u32>(0x0F0F0F0Fu) | fifth_WEIGHTS(at, j, 1u);
    let times = unpack2x16float(head.x) * scale_and_minimum(head.yzw, j);
    return Block(first, last, vec2<f32>(times.x), times.y);
}
