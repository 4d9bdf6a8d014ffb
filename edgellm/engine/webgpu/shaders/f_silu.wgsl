// silu(z) = z / (1 + exp(-z)).
fn activated(z: vec4<f32>) -> vec4<f32> {
    return z / (1.0 + exp(min(-z, vec4<f32>(80.0))));      // not infinite, which some adapters do not reckon with
}
