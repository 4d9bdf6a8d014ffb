// relu2(z) = max(z, 0)².
fn activated(z: vec4<f32>) -> vec4<f32> {
    let positive = max(z, vec4<f32>());
    return positive * positive;
}
