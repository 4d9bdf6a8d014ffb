// A norm behind a block, and its residual, a workgroup for each row: x[t] += FACTOR · RMSNorm(y[t]).
//
//     x, y [rows][X_VEC4S] of vec4, zeros behind COLUMNS;  norm [X_VEC4S] of vec4, zeros behind COLUMNS

@group(0) @binding(0) var<storage, read> y: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;

fn kernel(group: vec3<u32>) {
    let start = group.x * X_VEC4S;
    var squares = vec4<f32>();
    for (var k = lane; k < X_VEC4S; k += LANES) {
        squares += y[start + k] * y[start + k];
    }
    let sum = dot(sum_lanes(squares), vec4<f32>(1.0));
    let scale = FACTOR * inverseSqrt(sum / f32(COLUMNS) + EPS);
    for (var k = lane; k < X_VEC4S; k += LANES) {
        x[start + k] += y[start + k] * scale * norm[k];
    }
}
