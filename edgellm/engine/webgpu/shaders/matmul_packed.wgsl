// Matrix × matrix in integers, for quantized weights: y[t][first + r] = W[r] · x[t] (+ bias), x as quantize.wgsl has it.
//
// A workgroup makes a square of SIDE rows of W and SIDE rows of x. In each step half of its lanes fetch 32 weights of a
// row and half 32 values of x, into workgroup memory; then each lane adds to its 8 × 4 sums, four products at a time:
// the sums of 16 products are exact, and d · (d_x · q · q_x) - m · (d_x · q_x) is added up in float32.
//
//     COUNT     0: as many rows as the batch has, 1: as many as there are logits wanted
//     BIASED    + bias[first + r]
//     ADDED     y += instead of y =
//
//     q [rows][x_quads], scales [rows][x_quads / 8];  y [rows][y_stride]

@group(0) @binding(1) var<storage, read> batch: Batch;
@group(0) @binding(2) var<storage, read> q: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

var<workgroup> w_tile: array<u32, SIDE * 8u>;           // [8 words][SIDE rows of W]
var<workgroup> w_scales: array<vec3<f32>, SIDE>;        // d of the first half, of the second, m
var<workgroup> x_tile: array<u32, SIDE * 8u>;           // [8 words][SIDE rows of x]
var<workgroup> x_scales: array<vec2<f32>, SIDE>;

fn fetch(row: u32, t: u32, i: u32, rows: u32) {
    let side = lane % SIDE;
    if (lane < SIDE) {
        var w = block(min(row + side, shape.rows - 1u), i);
        for (var k = 0u; k < 8u; k++) {
            w_tile[k * SIDE + side] = w.q[k];
        }
        w_scales[side] = vec3<f32>(w.d, w.m);
    } else {
        let start = min(t + side, rows - 1u) * shape.x_quads + 8u * i;
        for (var k = 0u; k < 8u; k++) {
            x_tile[k * SIDE + side] = q[start + k];
        }
        x_scales[side] = scales[start / 8u];
    }
}

fn products(half: u32, r: u32, own_t: u32) -> vec4<f32> {
    var sum = vec4<i32>();
    for (var k = 4u * half; k < 4u * half + 4u; k++) {
        let w = w_tile[k * SIDE + r];
        let at = k * SIDE + own_t;
        sum += vec4<i32>(
            dot4I8Packed(w, x_tile[at]),
            dot4I8Packed(w, x_tile[at + 1u]),
            dot4I8Packed(w, x_tile[at + 2u]),
            dot4I8Packed(w, x_tile[at + 3u]),
        );
    }
    return vec4<f32>(sum);
}

fn kernel(group: vec3<u32>) {
    let rows = select(batch.rows, batch.outputs, COUNT == 1u);
    let row = group.x * SIDE;
    let t = group.y * SIDE;
    let own_row = lane / 16u * 8u;
    let own_t = lane % 16u * 4u;
    var sums: array<vec4<f32>, 8>;      // of 8 rows of W, each for 4 rows of x
    for (var i = 0u; i < shape.columns / 32u; i++) {
        workgroupBarrier();
        fetch(row, t, i, rows);
        workgroupBarrier();
        let a = x_scales[own_t];
        let b = x_scales[own_t + 1u];
        let c = x_scales[own_t + 2u];
        let d = x_scales[own_t + 3u];
        for (var r = 0u; r < 8u; r++) {
            let w = w_scales[own_row + r];
            let both = w.x * products(0u, own_row + r, own_t) + w.y * products(1u, own_row + r, own_t);
            sums[r] += vec4<f32>(a.x, b.x, c.x, d.x) * both - w.z * vec4<f32>(a.y, b.y, c.y, d.y);
        }
    }
    put_sums(row + own_row, t + own_t, rows, sums);
}
