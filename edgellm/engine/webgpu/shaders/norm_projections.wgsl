// RMSNorm of whole projections q and k in place, a workgroup for each of them in each row.
//
//     qkv    [rows][QKV_STRIDE]: Q_WIDTH values of q, K_WIDTH of k, then those of v
//     norms  [Q_WIDTH + K_WIDTH]: the weights for q, then for k

@group(0) @binding(0) var<storage, read> norms: array<f32>;
@group(0) @binding(1) var<storage, read_write> qkv: array<f32>;

fn kernel(group: vec3<u32>) {
    let is_k = group.y == 1u;
    let first = select(0u, Q_WIDTH, is_k);
    let width = select(Q_WIDTH, K_WIDTH, is_k);
    let start = group.x * QKV_STRIDE + first;
    var squares = 0.0;
    for (var d = lane; d < width; d += LANES) {
        squares += qkv[start + d] * qkv[start + d];
    }
    let sum = sum_lanes(vec4<f32>(squares, 0.0, 0.0, 0.0)).x;
    let scale = inverseSqrt(sum / f32(width) + select(Q_EPS, K_EPS, is_k));
    for (var d = lane; d < width; d += LANES) {
        qkv[start + d] *= scale * norms[first + d];
    }
}
