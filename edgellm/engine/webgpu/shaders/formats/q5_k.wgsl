// Q5_K: super-blocks of 256 weights in 176 bytes: eight blocks of 32 with a 6-bit scale and a 6-bit minimum each,
// w = d · scale · q - dmin · minimum, q in 0 … 31. `scale_and_minimum` tells how the scales lie.
//
//     byte  0       2          4                16                     48                               176
//           [ d f16 | dmin f16 | scales, minima | fifth bits: 32 bytes | low bits: 4 groups of 32 bytes ]
//
//     group g   low nibbles are block 2g, high nibbles block 2g + 1
//     byte l of the fifth bits: bit j is that of weight l of block j
fn block_WEIGHTS(row: u32, i: u32) -> Block {
    let at = (shape.columns / 256u * row + i / 8u) * 11u;
    let j = i % 8u;
    let head = WEIGHTS[at];
    let times = unpack2x16float(head.x) * scale_and_minimum(head.yzw, j);
    var block: Block;
    block.d = vec2<f32>(times.x);
    block.m = times.y;
    for (var half = 0u; half < 2u; half++) {
        let low = WEIGHTS[at + 3u + 2u * (j / 2u) + half] >> vec4<u32>(4u * (j % 2u)) & vec4<u32>(0x0F0F0F0Fu);
        let fifth = WEIGHTS[at + 1u + half] >> vec4<u32>(j) & vec4<u32>(0x01010101u);
        let q = low | fifth << vec4<u32>(4u);
        for (var k = 0u; k < 4u; k++) {
            block.q[4u * half + k] = q[k];
        }
    }
    return block;
}
