// A head of q, k or v in workgroup memory: RMSNorm, RoPE, and its KV cell.
//
//     cos_sin    [rows][ROPE_DIM / 2]: cosine and sine of each pair's angle at the row's position
//     norms      [2][HEAD_DIM]: the weights for heads of q, and of k
//
// NEOX: RoPE pairs values i and i + ROPE_DIM / 2 of a head, otherwise 2i and 2i + 1. HEAD_NORMS: q and k are normed.

const PAIRS: u32 = ROPE_DIM / 2u;

var<workgroup> head: array<f32, HEAD_DIM>;

// The factor of RMSNorm for the head that begins at `start`.
fn head_scale(start: u32) -> f32 {
    var squares = 0.0;
    for (var d = lane; d < HEAD_DIM; d += LANES) {
        squares += qkv[start + d] * qkv[start + d];
    }
    return inverseSqrt(sum_lanes(vec4<f32>(squares, 0.0, 0.0, 0.0)).x / f32(HEAD_DIM) + EPS);
}

// Load head h of row t, counted through q, k and v, and norm and rotate it unless it is of v.
fn take_head(t: u32, h: u32) {
    let start = t * QKV_STRIDE + h * HEAD_DIM;
    let is_rotated = h < HEADS + KV_HEADS;
    let weights = select(0u, HEAD_DIM, h >= HEADS);
    var scale = 1.0;
    if (HEAD_NORMS && is_rotated) {
        scale = head_scale(start);
    }
    workgroupBarrier();     // the previous head may still be read
    for (var i = lane; i < HEAD_DIM / 2u; i += LANES) {
        let neox = NEOX && i < PAIRS;
        let a = select(2u * i, i, neox);
        let b = select(2u * i + 1u, i + PAIRS, neox);
        var pair = vec2<f32>(qkv[start + a], qkv[start + b]);
        if (HEAD_NORMS && is_rotated) {
            pair *= scale * vec2<f32>(norms[weights + a], norms[weights + b]);
        }
        if (is_rotated && i < PAIRS) {
            let rotation = cos_sin[t * PAIRS + i];
            pair = vec2<f32>(pair.x * rotation.x - pair.y * rotation.y, pair.x * rotation.y + pair.y * rotation.x);
        }
        head[a] = pair.x;
        head[b] = pair.y;
    }
    workgroupBarrier();
}

// Store the head in the cell of row t, as the key or the value of KV head g, if its page is in this buffer.
fn store_head(t: u32, g: u32, values: bool) {
    let cell = batch.row[t].visible - 1u;
    let page = local_page(tables[batch.row[t].table + cell / PAGE]);
    if (page >= kv_range.pages) {
        return;
    }
    for (var d = 4u * lane; d < HEAD_DIM; d += 4u * LANES) {
        let v = vec4<f32>(head[d], head[d + 1u], head[d + 2u], head[d + 3u]);
        store_vec4(page, g, values, d / 4u, cell % PAGE, v);
    }
}
