// Matrix × matrix in integers, for quantized weights: y[t][first + r] = W[r] · x[t] (+ bias), x as quantize.wgsl has it
// (see square.wgsl).
//
// The sums of 16 products, four at a time, are exact; d · (d_x · q · q_x) - m · (d_x · q_x) is added up in float32.
//
//     COUNT     0: as many rows as the batch has, 1: as many as there are logits wanted
//     BIASED    + bias[first + r]
//     ADDED     y += instead of y =
//
//     q [rows][x_quads / 4] of vec4, scales [rows][x_quads / 8];  y [rows][y_stride]

@group(0) @binding(1) var<storage, read> batch: Batch;
@group(0) @binding(2) var<storage, read> q: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

var<workgroup> w_tile: array<vec4<u32>, 2u * SIDE>;     // [halves of 32 columns][rows of W]
var<workgroup> w_scales: array<vec3<f32>, SIDE>;        // d of the first half, of the second, m
var<workgroup> x_tile: array<vec4<u32>, 2u * SIDE>;     // [halves of 32 columns][rows of x]
var<workgroup> x_scales: array<vec2<f32>, SIDE>;

fn fetch(row: u32, t: u32, i: u32, rows: u32) {
    if (lane < SIDE) {
        let w = block_w0(min(row + lane, shape.rows - 1u), i);
        w_tile[lane] = w.first;
        w_tile[SIDE + lane] = w.last;
        w_scales[lane] = vec3<f32>(w.d, w.m);
    } else {
        let side = lane - SIDE;
        let start = min(t + side, rows - 1u) * (shape.x_quads / 4u) + 2u * i;
        x_tile[side] = q[start];
        x_tile[SIDE + side] = q[start + 1u];
        x_scales[side] = scales[start / 2u];
    }
}

// Half of 32 columns of 4 rows of x.
struct Four {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
}

fn four_rows(half: u32, t: u32) -> Four {
    let at = half * SIDE + t;
    return Four(x_tile[at], x_tile[at + APART], x_tile[at + 2u * APART], x_tile[at + 3u * APART]);
}

// The sum of the products of 16 int8 each.
fn product(w: vec4<u32>, v: vec4<u32>) -> i32 {
    return dot4I8Packed(w.x, v.x) + dot4I8Packed(w.y, v.y) + dot4I8Packed(w.z, v.z) + dot4I8Packed(w.w, v.w);
}

fn four_products(w: vec4<u32>, v: Four) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(product(w, v.a), product(w, v.b), product(w, v.c), product(w, v.d)));
}

// Products of 32 columns of a row of W with 4 rows of x.
fn of_row(row: u32, first: Four, last: Four, x_scale: vec4<f32>, x_sum: vec4<f32>) -> vec4<f32> {
    let scales = w_scales[row];
    let both = scales.x * four_products(w_tile[row], first) + scales.y * four_products(w_tile[SIDE + row], last);
    return both * x_scale - scales.z * x_sum;
}

fn kernel(group: vec3<u32>) {
    let rows = select(batch.rows, batch.outputs, COUNT == 1u);
    let row = group.x * SIDE;
    let t = group.y * SIDE;
    let own = place();
    var upper = mat4x4<f32>();      // sums of 4 rows of W, each for 4 rows of x
    var lower = mat4x4<f32>();      // and of the 4 below
    for (var i = 0u; i < shape.columns / 32u; i++) {
        workgroupBarrier();
        fetch(row, t, i, rows);
        workgroupBarrier();
        let a = x_scales[own.t];
        let b = x_scales[own.t + APART];
        let c = x_scales[own.t + 2u * APART];
        let d = x_scales[own.t + 3u * APART];
        let x_scale = vec4<f32>(a.x, b.x, c.x, d.x);
        let x_sum = vec4<f32>(a.y, b.y, c.y, d.y);
        let first = four_rows(0u, own.t);
        let last = four_rows(1u, own.t);
        upper += mat4x4<f32>(
            of_row(own.row, first, last, x_scale, x_sum),
            of_row(own.row + 1u, first, last, x_scale, x_sum),
            of_row(own.row + 2u, first, last, x_scale, x_sum),
            of_row(own.row + 3u, first, last, x_scale, x_sum),
        );
        lower += mat4x4<f32>(
            of_row(own.row + 4u, first, last, x_scale, x_sum),
            of_row(own.row + 5u, first, last, x_scale, x_sum),
            of_row(own.row + 6u, first, last, x_scale, x_sum),
            of_row(own.row + 7u, first, last, x_scale, x_sum),
        );
    }
    put_sums(row + own.row, t + own.t, rows, upper);
    put_sums(row + own.row + 4u, t + own.t, rows, lower);
}
