// RMSNorm or LayerNorm, a workgroup for each row: h[t] = (x[t] - m) / sqrt(mean((x[t] - m)²) + EPS) · norm + bias.
//
//     LAYER     m is the mean of x[t], otherwise 0
//     BIASED    + bias
//     GATHERED  the rows of x are those whose logits are wanted
//
//     x, h [rows][X_VEC4S] of vec4, zeros behind COLUMNS;  norm, bias [X_VEC4S] of vec4, zeros behind COLUMNS

@group(0) @binding(0) var<storage, read> batch: Batch;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> h: array<vec4<f32>>;

// Vec4 k of the row that begins at `start` without its mean, and 0 behind COLUMNS.
fn centred(start: u32, k: u32, mean: f32) -> vec4<f32> {
    let columns = vec4<u32>(4u * k) + vec4<u32>(0u, 1u, 2u, 3u);
    return select(vec4<f32>(), x[start + k] - mean, columns < vec4<u32>(COLUMNS));
}

fn kernel(group: vec3<u32>) {
    var start = group.x;
    if (GATHERED) {
        start = batch.row[batch.first_output + group.x].output;
    }
    start *= X_VEC4S;
    var mean = 0.0;
    if (LAYER) {
        var sums = vec4<f32>();
        for (var k = lane; k < X_VEC4S; k += LANES) {
            sums += x[start + k];
        }
        mean = dot(sum_lanes(sums), vec4<f32>(1.0)) / f32(COLUMNS);
    }
    var squares = vec4<f32>();
    for (var k = lane; k < X_VEC4S; k += LANES) {
        let v = centred(start, k, mean);
        squares += v * v;
    }
    let sum = dot(sum_lanes(squares), vec4<f32>(1.0));
    let scale = inverseSqrt(sum / f32(COLUMNS) + EPS);
    for (var k = lane; k < X_VEC4S; k += LANES) {
        var v = centred(start, k, mean) * scale * norm[k];
        if (BIASED) {
            v += bias[k];
        }
        h[group.x * X_VEC4S + k] = v;
    }
}
