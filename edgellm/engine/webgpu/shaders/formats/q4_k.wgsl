// Q4_K: super-blocks in 144 bytes, with q in 0 … 15 (see minima.wgsl).
const FIFTH_WEIGHTS: u32 = 0u;

fn fifth_WEIGHTS(at: u32, j: u32, half: u32) -> vec4<u32> {
    return vec4<u32>();
}
