// h[t] = sigmoid(gate[t]) · h[t], with one gate for a row, a workgroup for LANES vec4s of a row.
//
//     h [rows][VEC4S] of vec4;  gate [rows]

@group(0) @binding(0) var<storage, read_write> h: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> gate: array<f32>;

fn kernel(group: vec3<u32>) {
    let k = group.x * LANES + lane;
    if (k < VEC4S) {
        h[group.y * VEC4S + k] *= 1.0 / (1.0 + exp(min(-gate[group.y], 80.0)));      // see f_silu.wgsl
    }
}
