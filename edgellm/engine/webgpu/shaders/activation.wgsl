// The function of a feed-forward, a workgroup for LANES vec4s of a row: gate[t] = f(gate[t]) · up[t], f as in f_*.wgsl.
//
//     GATED      false: gate[t] = f(gate[t])
//
//     gate, up [rows][VEC4S] of vec4

@group(0) @binding(0) var<storage, read_write> gate: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> up: array<vec4<f32>>;

fn kernel(group: vec3<u32>) {
    let k = group.x * LANES + lane;
    if (k < VEC4S) {
        let at = group.y * VEC4S + k;
        var made = activated(gate[at]);
        if (GATED) {
            made *= up[at];
        }
        gate[at] = made;
    }
}
