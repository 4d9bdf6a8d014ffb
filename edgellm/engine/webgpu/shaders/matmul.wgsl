// Matrix × matrix, for many rows: y[t][first + r] = W[r] · x[t] (+ bias), for r = 0 … rows - 1 and all t.
//
// A workgroup makes a square of SIDE rows of W and SIDE rows of x. In each step half of its lanes unpack 32 weights of
// a row and half fetch 32 values of x, into workgroup memory; then each lane adds to its 8 × 4 sums.
//
//     COUNT     0: as many rows as the batch has, 1: as many as there are logits wanted
//     BIASED    + bias[first + r]
//     W_TYPE    how unpacked weights are kept: f32, or f16 for quantized ones where the adapter has it
//     ADDED     y += instead of y =
//
//     x [rows][x_quads] of vec4, zeros behind the last column;  y [rows][y_stride]

@group(0) @binding(1) var<storage, read> batch: Batch;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

var<workgroup> w_tile: array<W_TYPE, SIDE * 32u>;       // [32 columns][SIDE rows of W]
var<workgroup> x_tile: array<f32, SIDE * 32u>;          // [32 columns][SIDE rows of x]

fn fetch(row: u32, t: u32, i: u32, rows: u32) {
    let side = lane % SIDE;
    if (lane < SIDE) {
        var w = unpack(min(row + side, shape.rows - 1u), i);
        for (var k = 0u; k < 32u; k++) {
            w_tile[k * SIDE + side] = W_TYPE(w[k / 4u][k % 4u]);
        }
    } else {
        let start = min(t + side, rows - 1u) * shape.x_quads + 8u * i;
        for (var k = 0u; k < 8u; k++) {
            let v = x[start + k];
            for (var c = 0u; c < 4u; c++) {
                x_tile[(4u * k + c) * SIDE + side] = v[c];
            }
        }
    }
}

fn kernel(group: vec3<u32>) {
    let rows = select(batch.rows, batch.outputs, COUNT == 1u);
    let row = group.x * SIDE;
    let t = group.y * SIDE;
    let own_row = lane / 16u * 8u;
    let own_t = lane % 16u * 4u;
    var sums: array<vec4<f32>, 8>;      // of 8 rows of W, each for 4 rows of x
    for (var i = 0u; i < (shape.columns + 31u) / 32u; i++) {
        workgroupBarrier();
        fetch(row, t, i, rows);
        workgroupBarrier();
        for (var k = 0u; k < 32u; k++) {
            let at = k * SIDE + own_t;
            let v = vec4<f32>(x_tile[at], x_tile[at + 1u], x_tile[at + 2u], x_tile[at + 3u]);
            for (var r = 0u; r < 8u; r++) {
                sums[r] = fma(vec4<f32>(f32(w_tile[k * SIDE + own_row + r])), v, sums[r]);
            }
        }
    }
    put_sums(row + own_row, t + own_t, rows, sums);
}
