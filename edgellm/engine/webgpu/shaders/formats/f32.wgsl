// F32: a weight is a word.
fn sixteen_WEIGHTS(at: u32) -> mat4x4<f32> {
    let i = at / 4u;
    return mat4x4<f32>(
        bitcast<vec4<f32>>(WEIGHTS[i]),
        bitcast<vec4<f32>>(WEIGHTS[i + 1u]),
        bitcast<vec4<f32>>(WEIGHTS[i + 2u]),
        bitcast<vec4<f32>>(WEIGHTS[i + 3u]),
    );
}

fn weight_WEIGHTS(at: u32) -> f32 {
    return bitcast<f32>(WEIGHTS[at / 4u][at % 4u]);
}
