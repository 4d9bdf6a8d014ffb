// A head in workgroup memory, on its way from the products of q, k and v: RMSNorm, RoPE, and into a KV cell.
//
//     rotations  [rows][ROPE_DIM / 2]: cosine and sine of each pair's angle at the row's position
//     norms      [2][HEAD_DIM]: the weights for heads of q, and of k
//
// HALVES pairs value i of a head with i + ROPE_DIM / 2, otherwise neighbours 2i and 2i + 1. HEAD_NORMS: there are norms.

var<workgroup> head: array<f32, HEAD_DIM>;

fn norm_head(weights: u32) {
    var squares = 0.0;
    for (var d = lane; d < HEAD_DIM; d += LANES) {
        squares += head[d] * head[d];
    }
    let scale = 1.0 / sqrt(sum_lanes(vec4<f32>(squares, 0.0, 0.0, 0.0)).x / f32(HEAD_DIM) + EPS);
    for (var d = lane; d < HEAD_DIM; d += LANES) {
        head[d] *= scale * norms[weights + d];
    }
    workgroupBarrier();
}

fn rotate(t: u32) {
    for (var i = lane; i < ROPE_DIM / 2u; i += LANES) {
        let a = select(2u * i, i, HALVES);
        let b = select(2u * i + 1u, i + ROPE_DIM / 2u, HALVES);
        let turn = rotations[t * (ROPE_DIM / 2u) + i];
        let before = vec2<f32>(head[a], head[b]);
        head[a] = before.x * turn.x - before.y * turn.y;
        head[b] = before.x * turn.y + before.y * turn.x;
    }
    workgroupBarrier();
}

// The largest absolute value of the 32 among which value d of the head is.
fn largest_around(d: u32) -> f32 {
    var largest = 0.0;
    for (var e = d / 32u * 32u; e < min(d / 32u * 32u + 32u, HEAD_DIM); e++) {
        largest = max(largest, abs(head[e]));
    }
    return largest;
}

// Take head h of row t, counted through q, k and v, and norm and rotate what is of q or k.
fn take_head(t: u32, h: u32) {
    workgroupBarrier();     // the head before may still be read
    for (var d = lane; d < HEAD_DIM; d += LANES) {
        head[d] = qkv[t * QKV_STRIDE + h * HEAD_DIM + d];
    }
    workgroupBarrier();
    if (h < HEADS + KV_HEADS) {
        if (HEAD_NORMS) {
            norm_head(select(0u, HEAD_DIM, h >= HEADS));
        }
        rotate(t);
    }
}

// Put the head into the cell of row t, as the key or the value of KV head g, if that is in this piece.
fn store_head(t: u32, g: u32, values: bool) {
    let cell = batch.row[t].visible - 1u;
    let page = here(tables[batch.row[t].table + cell / PAGE]);
    if (page >= piece.pages) {
        return;
    }
    for (var d = 4u * lane; d < HEAD_DIM; d += 4u * LANES) {
        let quad = vec4<f32>(head[d], head[d + 1u], head[d + 2u], head[d + 3u]);
        store_quad(page, g, values, d / 4u, cell % PAGE, quad, largest_around(d));
    }
}
