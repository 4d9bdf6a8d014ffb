// sigmoid(z) = 1 / (1 + exp(-z)).
fn activated(z: vec4<f32>) -> vec4<f32> {
    return 1.0 / (1.0 + exp(min(-z, vec4<f32>(80.0))));     // see f_silu.wgsl
}
