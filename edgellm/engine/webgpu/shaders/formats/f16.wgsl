// F16: IEEE 754 half precision.
fn pair_WEIGHTS(word: u32) -> vec2<f32> {
    return unpack2x16float(word);
}
