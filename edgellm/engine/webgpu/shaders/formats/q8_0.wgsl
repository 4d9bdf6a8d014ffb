// Q8_0: blocks of 32 weights in 34 bytes, w = d · q.
//
//     byte  0       2                      34
//           [ d f16 | q0 q1 … q31 (int8) ]
const HALVED_WEIGHTS: bool = false;

fn block_WEIGHTS(row: u32, i: u32) -> Block {
    let at = row * (shape.columns / 32u * 34u) + 34u * i;
    let q = bytes_WEIGHTS(at + 2u);
    return Block(q.first, q.last, vec2<f32>(half_WEIGHTS(at)), 0.0);
}
