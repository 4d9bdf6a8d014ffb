// BF16: the upper half of a float32.
fn pair_WEIGHTS(word: u32) -> vec2<f32> {
    return bitcast<vec2<f32>>(vec2<u32>(word << 16u, word & 0xFFFF0000u));
}
