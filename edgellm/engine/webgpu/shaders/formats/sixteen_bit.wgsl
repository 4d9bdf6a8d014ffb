
// Weights of 16 bits, which `pair` unpacks from a word; a row may begin in the middle of a word.
fn sixteen_WEIGHTS(at: u32) -> mat4x4<f32> {
    let a = WEIGHTS[at / 8u];
    let b = WEIGHTS[at / 8u + 1u];
    return mat4x4<f32>(
        vec4<f32>(pair_WEIGHTS(a.x), pair_WEIGHTS(a.y)),
        vec4<f32>(pair_WEIGHTS(a.z), pair_WEIGHTS(a.w)),
        vec4<f32>(pair_WEIGHTS(b.x), pair_WEIGHTS(b.y)),
        vec4<f32>(pair_WEIGHTS(b.z), pair_WEIGHTS(b.w)),
    );
}

fn weight_WEIGHTS(at: u32) -> f32 {
    let pair = pair_WEIGHTS(WEIGHTS[at / 8u][at / 2u % 4u]);
    return select(pair.x, pair.y, at % 2u == 1u);
}
