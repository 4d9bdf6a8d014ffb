// Attention of rows that are the only ones of their sequences, as in decode. Each workgroup norms and rotates its
// queries (see heads.wgsl), and the one of a sequence's last span stores the new key and value first, so prepare.wgsl is
// not needed. If a group has several chunks, all store the same values.
//
//     qkv  [rows][QKV_STRIDE]: HEADS heads of q, KV_HEADS of k, KV_HEADS of v, each HEAD_DIM values

@group(0) @binding(0) var<storage, read> batch: Batch;
@group(0) @binding(1) var<storage, read> tables: array<u32>;
@group(0) @binding(2) var<storage, read> cos_sin: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> norms: array<f32>;
@group(0) @binding(4) var<storage, read> qkv: array<f32>;
@group(0) @binding(5) var<storage, read_write> kv: array<u32>;
@group(0) @binding(6) var<storage, read_write> mixed: array<f32>;
@group(0) @binding(7) var<storage, read_write> partials: array<vec4<f32>>;
@group(0) @binding(8) var<uniform> kv_range: KVRange;

fn kernel(group: vec3<u32>) {
    let tile = tile_of(group);
    let t = tile.first;
    let own_page = batch.row[t].cell / PAGE;
    let in_span = own_page - span_start(tile, group.z) < batch.span_pages;
    if (in_span && local_page(tables[batch.row[t].table + own_page]) < kv_range.pages) {
        take_head(t, HEADS + tile.g);
        store_head(t, tile.g, false);
        take_head(t, HEADS + KV_HEADS + tile.g);
        store_head(t, tile.g, true);
        storageBarrier();
    }
    for (var i = 0u; i < QUERIES; i++) {
        if (is_query(tile, i)) {
            take_head(t, head_of(tile, i));
            for (var d4 = lane; d4 < VEC4S; d4 += LANES) {
                let v = vec4<f32>(head[4u * d4], head[4u * d4 + 1u], head[4u * d4 + 2u], head[4u * d4 + 3u]);
                queries[i * VEC4S + d4] = SCALE * v;
            }
        }
    }
    attend(tile, group.z);
}
