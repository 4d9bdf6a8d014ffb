// Between the matmuls of q, k and v and attention, a workgroup for each head of each row: q and k are normed and rotated
// (see heads.wgsl), and k and v are stored in the row's own KV cell.
//
//     tables     page ids of the sequences
//     qkv        [rows][QKV_STRIDE]: HEADS heads of q, KV_HEADS of k, KV_HEADS of v, each HEAD_DIM values
//     kv         the KV pages of this layer (see kv_*.wgsl)

@group(0) @binding(0) var<storage, read> batch: Batch;
@group(0) @binding(1) var<storage, read> tables: array<u32>;
@group(0) @binding(2) var<storage, read> cos_sin: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> norms: array<f32>;
@group(0) @binding(4) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(5) var<storage, read_write> kv: array<u32>;
@group(0) @binding(6) var<uniform> kv_range: KVRange;

fn kernel(group: vec3<u32>) {
    let h = group.x;
    let t = group.y;
    take_head(t, h);
    if (h < HEADS) {
        if (kv_range.has_previous == 1u) {
            return;     // done with the first buffer
        }
        for (var d = lane; d < HEAD_DIM; d += LANES) {
            qkv[t * QKV_STRIDE + h * HEAD_DIM + d] = head[d];
        }
    } else {
        store_head(t, (h - HEADS) % KV_HEADS, h >= HEADS + KV_HEADS);
    }
}
