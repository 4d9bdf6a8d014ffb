// Matrix × matrix, for many rows: y[t][first + r] = W[r] · x[t] (+ bias), for r = 0 … rows - 1 and all t.
// How a workgroup shares the work out is in square.wgsl.
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

const X_SIDE: u32 = SIDE + 1u;      // so that what one row of x brings goes to different banks

var<workgroup> w_tile: array<vec4<W_TYPE>, 8u * SIDE>;      // [quads of columns][rows of W]
var<workgroup> x_tile: array<vec4<f32>, 8u * X_SIDE>;       // [quads of columns][rows of x]

fn fetch(row: u32, t: u32, i: u32, rows: u32) {
    if (lane < SIDE) {
        var w = unpack(min(row + lane, shape.rows - 1u), i);
        for (var k = 0u; k < 8u; k++) {
            w_tile[k * SIDE + lane] = vec4<W_TYPE>(w[k]);
        }
    } else {
        for (var n = lane - SIDE; n < 8u * SIDE; n += SIDE) {       // neighbours take what is side by side in x
            let k = n % 8u;
            x_tile[k * X_SIDE + n / 8u] = x[min(t + n / 8u, rows - 1u) * shape.x_quads + 8u * i + k];
        }
    }
}

fn kernel(group: vec3<u32>) {
    let rows = select(batch.rows, batch.outputs, COUNT == 1u);
    let row = group.x * SIDE;
    let t = group.y * SIDE;
    let own = place();
    var sums: array<vec4<f32>, 8>;      // of 8 rows of W, each for 4 rows of x
    for (var i = 0u; i < (shape.columns + 31u) / 32u; i++) {
        workgroupBarrier();
        fetch(row, t, i, rows);
        workgroupBarrier();
        for (var k = 0u; k < 8u; k++) {
            let at = k * X_SIDE + own.t;
            let a = x_tile[at];
            let b = x_tile[at + APART];
            let c = x_tile[at + 2u * APART];
            let d = x_tile[at + 3u * APART];
            for (var r = 0u; r < 8u; r++) {
                let w = vec4<f32>(w_tile[k * SIDE + own.row + r]);
                sums[r] += vec4<f32>(dot(w, a), dot(w, b), dot(w, c), dot(w, d));
            }
        }
    }
    put_sums(row + own.row, t + own.t, rows, sums);
}
