// gate[t] = silu(gate[t]) · up[t], a workgroup for LANES vec4s of a row; silu(z) = z / (1 + exp(-z)).
//
//     gate, up [rows][VEC4S] of vec4

@group(0) @binding(0) var<storage, read_write> gate: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> up: array<vec4<f32>>;

fn kernel(group: vec3<u32>) {
    let k = group.x * LANES + lane;
    if (k < VEC4S) {
        let at = group.y * VEC4S + k;
        let z = gate[at];
        gate[at] = z / (1.0 + exp(min(-z, vec4<f32>(80.0)))) * up[at];     // as in matvec.wgsl
    }
}
