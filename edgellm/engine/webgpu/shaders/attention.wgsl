// Attention of rows whose q, k and v were prepared (see attend.wgsl).
//
//     qkv  [rows][QKV_STRIDE]: the heads of q come first, rotated

@group(0) @binding(0) var<storage, read> batch: Batch;
@group(0) @binding(1) var<storage, read> tables: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<f32>;
@group(0) @binding(3) var<storage, read> kv: array<u32>;
@group(0) @binding(4) var<storage, read_write> mixed: array<f32>;
@group(0) @binding(5) var<storage, read_write> partials: array<vec4<f32>>;
@group(0) @binding(6) var<uniform> kv_range: KVRange;

fn take_queries(tile: Tile) {
    for (var k = lane; k < QUERIES * VEC4S; k += LANES) {
        let i = k / VEC4S;
        var v = vec4<f32>();
        if (is_query(tile, i)) {
            let at = row_of(tile, i) * QKV_STRIDE + head_of(tile, i) * HEAD_DIM + 4u * (k % VEC4S);
            v = SCALE * vec4<f32>(qkv[at], qkv[at + 1u], qkv[at + 2u], qkv[at + 3u]);
        }
        queries[k] = v;
    }
}

fn kernel(group: vec3<u32>) {
    let tile = tile_of(group);
    take_queries(tile);
    attend(tile, group.z);
}
