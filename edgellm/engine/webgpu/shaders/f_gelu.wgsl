// gelu(z) = z / 2 · (1 + tanh(u)) = z / (1 + exp(-2u)) with u = sqrt(2 / π) · (z + 0.044715 z³).
fn activated(z: vec4<f32>) -> vec4<f32> {
    let u = 0.7978845608 * z * (1.0 + 0.044715 * z * z);
    return z / (1.0 + exp(min(-2.0 * u, vec4<f32>(80.0))));     // see f_silu.wgsl
}
