// The bytes of a tensor, where blocks may begin in the middle of a word; all sizes are even.

@group(0) @binding(BINDING_WEIGHTS) var<storage, read> WEIGHTS: array<u32>;

fn word_WEIGHTS(at: u32) -> u32 {
    let low = WEIGHTS[at / 4u];
    if (at % 4u == 0u) {
        return low;
    }
    return low >> 16u | WEIGHTS[at / 4u + 1u] << 16u;
}

// The eight words from there on, in nine loads.
fn eight_words_WEIGHTS(at: u32) -> array<u32, 8> {
    var words: array<u32, 8>;
    var low = WEIGHTS[at / 4u];
    for (var k = 0u; k < 8u; k++) {
        let high = WEIGHTS[at / 4u + k + 1u];
        words[k] = select(low >> 16u | high << 16u, low, at % 4u == 0u);
        low = high;
    }
    return words;
}

fn half_WEIGHTS(at: u32) -> f32 {
    return unpack2x16float(WEIGHTS[at / 4u])[at / 2u % 2u];
}
