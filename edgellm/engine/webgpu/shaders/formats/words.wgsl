// The bytes of a tensor, where blocks may begin in the middle of a word; all sizes are even.

@group(0) @binding(BINDING_WEIGHTS) var<storage, read> WEIGHTS: array<u32>;

// The low half and what follows, or the high half of one and the low one of the next.
fn half_on_WEIGHTS(words: vec4<u32>, next: vec4<u32>, at: u32) -> vec4<u32> {
    return select(words >> vec4<u32>(16u) | next << vec4<u32>(16u), words, at % 4u == 0u);
}

// The four words from there on, in five loads.
fn words_WEIGHTS(at: u32) -> vec4<u32> {
    let i = at / 4u;
    let words = vec4<u32>(WEIGHTS[i], WEIGHTS[i + 1u], WEIGHTS[i + 2u], WEIGHTS[i + 3u]);
    return half_on_WEIGHTS(words, vec4<u32>(words.yzw, WEIGHTS[i + 4u]), at);
}

fn word_WEIGHTS(at: u32) -> u32 {
    let low = WEIGHTS[at / 4u];
    return select(low >> 16u | WEIGHTS[at / 4u + 1u] << 16u, low, at % 4u == 0u);
}

fn half_WEIGHTS(at: u32) -> f32 {
    return unpack2x16float(WEIGHTS[at / 4u] >> (8u * (at % 4u))).x;
}
