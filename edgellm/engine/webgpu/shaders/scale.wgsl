// x[t] = FACTOR · x[t], a workgroup for LANES vec4s of a row.
//
//     x [rows][X_VEC4S] of vec4

@group(0) @binding(0) var<storage, read_write> x: array<vec4<f32>>;

fn kernel(group: vec3<u32>) {
    let k = group.x * LANES + lane;
    if (k < X_VEC4S) {
        x[group.y * X_VEC4S + k] *= FACTOR;
    }
}
