// Q5_K: super-blocks in 176 bytes, with q in 0 … 31 (see minima.wgsl).
// Bit j of byte l of the fifth bits is that of weight l of block j.
const FIFTH_WEIGHTS: u32 = 2u;

fn fifth_WEIGHTS(at: u32, j: u32, half: u32) -> vec4<u32> {
    return (WEIGHTS[at + 1u + half] >> vec4<u32>(j) & vec4<u32>(0x01010101u)) << vec4<u32>(4u);
}
