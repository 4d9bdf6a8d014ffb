// RMSNorm, a workgroup for each row: h[t] = x[t] / sqrt(mean(x[t]²) + EPS) · norm.
//
//     GATHERED  the rows of x are those whose logits are wanted
//
//     x, h [rows][X_VEC4S] of vec4, zeros behind COLUMNS;  norm [X_VEC4S] of vec4, zeros behind COLUMNS

@group(0) @binding(0) var<storage, read> batch: Batch;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> h: array<vec4<f32>>;

fn kernel(group: vec3<u32>) {
    var start = group.x;
    if (GATHERED) {
        start = batch.row[batch.first_output + group.x].output;
    }
    start *= X_VEC4S;
    var squares = vec4<f32>();
    for (var k = lane; k < X_VEC4S; k += LANES) {
        squares += x[start + k] * x[start + k];
    }
    let sum = dot(sum_lanes(squares), vec4<f32>(1.0));
    let scale = inverseSqrt(sum / f32(COLUMNS) + EPS);
    for (var k = lane; k < X_VEC4S; k += LANES) {
        h[group.x * X_VEC4S + k] = x[start + k] * scale * norm[k];
    }
}
