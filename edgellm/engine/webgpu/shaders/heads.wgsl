// A head of q, k or v in workgroup memory: RMSNorm, RoPE, in this order or with NORM_AFTER_ROPE in the other, and its KV
// cell.
//
//     cos_sin    [rows][ROPE_DIM / 2]: cosine and sine of each pair's angle at the row's position; with TEMPERATURE one
//                more pair a row, whose first value is a factor of q
//     norms      [3][HEAD_DIM]: the weights for heads of q, of k, and of v
//
// RoPE rotates the first ROPE_DIM values of a head, or none; NEOX: it pairs values i and i + ROPE_DIM / 2, otherwise 2i
// and 2i + 1. HEAD_NORMS: q and k are normed, V_NORM: v is; Q_EPS, K_EPS and V_EPS are the epsilons.

const PAIRS: u32 = ROPE_DIM / 2u;
const ROW_PAIRS: u32 = PAIRS + u32(TEMPERATURE);

var<workgroup> head: array<f32, HEAD_DIM>;

// The factor of RMSNorm for the head in workgroup memory.
fn head_scale(eps: f32) -> f32 {
    var squares = 0.0;
    for (var d = lane; d < HEAD_DIM; d += LANES) {
        squares += head[d] * head[d];
    }
    return inverseSqrt(sum_lanes(vec4<f32>(squares, 0.0, 0.0, 0.0)).x / f32(HEAD_DIM) + eps);
}

fn norm_head(h: u32) {
    let part = u32(h >= HEADS) + u32(h >= HEADS + KV_HEADS);
    let scale = head_scale(vec3<f32>(Q_EPS, K_EPS, V_EPS)[part]);
    for (var d = lane; d < HEAD_DIM; d += LANES) {
        head[d] *= scale * norms[part * HEAD_DIM + d];
    }
    workgroupBarrier();
}

fn rotate_head(t: u32) {
    for (var i = lane; i < PAIRS; i += LANES) {
        let a = select(2u * i, i, NEOX);
        let b = select(2u * i + 1u, i + PAIRS, NEOX);
        let pair = vec2<f32>(head[a], head[b]);
        let rotation = cos_sin[t * ROW_PAIRS + i];
        head[a] = pair.x * rotation.x - pair.y * rotation.y;
        head[b] = pair.x * rotation.y + pair.y * rotation.x;
    }
    workgroupBarrier();
}

// Load head h of row t, counted through q, k and v, and norm and rotate it; heads of v are not rotated.
fn take_head(t: u32, h: u32) {
    let start = t * QKV_STRIDE + h * HEAD_DIM;
    workgroupBarrier();     // the previous head may still be read
    for (var d = lane; d < HEAD_DIM; d += LANES) {
        head[d] = qkv[start + d];
    }
    workgroupBarrier();
    if (h >= HEADS + KV_HEADS) {
        if (V_NORM) {
            norm_head(h);
        }
        return;
    }
    if (HEAD_NORMS && !NORM_AFTER_ROPE) {
        norm_head(h);
    }
    if (PAIRS > 0u) {
        rotate_head(t);
    }
    if (HEAD_NORMS && NORM_AFTER_ROPE) {
        norm_head(h);
    }
    if (TEMPERATURE && h < HEADS) {
        for (var d = lane; d < HEAD_DIM; d += LANES) {
            head[d] *= cos_sin[t * ROW_PAIRS + PAIRS].x;
        }
        workgroupBarrier();
    }
}

// Store the head in the cell of row t, as the key or the value of KV head g, if its page is in this buffer.
fn store_head(t: u32, g: u32, values: bool) {
    let cell = batch.row[t].cell;
    let page = local_page(tables[batch.row[t].table + cell / PAGE]);
    if (page >= kv_range.pages) {
        return;
    }
    for (var d = 4u * lane; d < HEAD_DIM; d += 4u * LANES) {
        let v = vec4<f32>(head[d], head[d + 1u], head[d + 2u], head[d + 3u]);
        store_vec4(page, g, values, d / 4u, cell % PAGE, v);
    }
}
