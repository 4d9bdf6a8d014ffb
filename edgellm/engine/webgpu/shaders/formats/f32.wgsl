// F32: a weight is a word.
fn quad_WEIGHTS(at: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(WEIGHTS[at], WEIGHTS[at + 1u], WEIGHTS[at + 2u], WEIGHTS[at + 3u]));
}

fn weight_WEIGHTS(at: u32) -> f32 {
    return bitcast<f32>(WEIGHTS[at]);
}
