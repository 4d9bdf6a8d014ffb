
// Weights of half a word each, which `pair` takes apart, and so a row may begin in the middle of one.
fn quad_WEIGHTS(at: u32) -> vec4<f32> {
    return vec4<f32>(pair_WEIGHTS(WEIGHTS[at / 2u]), pair_WEIGHTS(WEIGHTS[at / 2u + 1u]));
}

fn weight_WEIGHTS(at: u32) -> f32 {
    let pair = pair_WEIGHTS(WEIGHTS[at / 2u]);
    return select(pair.x, pair.y, at % 2u == 1u);
}
