// Clamped SwiGLU, a workgroup for LANES vec4s of a row: with g = min(gate[t], LIMIT),
// gate[t] = g · sigmoid(ALPHA · g) · (clamp(up[t], -LIMIT, LIMIT) + 1).
//
//     gate, up [rows][VEC4S] of vec4; behind the last column zeros, which remain

@group(0) @binding(0) var<storage, read_write> gate: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> up: array<vec4<f32>>;

fn kernel(group: vec3<u32>) {
    let k = group.x * LANES + lane;
    if (k < VEC4S) {
        let at = group.y * VEC4S + k;
        let g = min(gate[at], vec4<f32>(LIMIT));
        let limited = clamp(up[at], vec4<f32>(-LIMIT), vec4<f32>(LIMIT));
        gate[at] = g / (1.0 + exp(min(-ALPHA * g, vec4<f32>(80.0)))) * (limited + 1.0);      // see f_silu.wgsl
    }
}
