// Matrix × vector, for few rows: y[t][first + r] = W[r] · x[t] (+ bias), for r = 0 … rows - 1.
//
// A workgroup makes TILE rows of y for one row of x: its lanes share out the columns, 32 at a time, then sum up.
// W may be several tensors below each other: `product(r, i, &h, sum)` is that of h with weights 32i … of row r.
//
//     NORMED    x is normed first (RMSNorm with weight `norm`): each workgroup does it again, as x is small
//     GATHERED  the rows of x are those whose logits are wanted
//     GATED     W is a gate above an up projection of as many rows each: y = silu(gate · x) · (up · x)
//     BIASED    + bias[first + r]
//     ADDED     y += instead of y =
//
//     x [rows][x_quads] of vec4, zeros behind the last column;  y [rows][y_stride];  norm [x_quads] of vec4

@group(0) @binding(1) var<storage, read> batch: Batch;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

const TILE: u32 = 4u;
const PARTS: u32 = select(1u, 2u, GATED);       // the gate, then the up projection
const STRIDE: u32 = LANES + 1u;                 // one more than there are lanes: then neighbours are in different banks

var<workgroup> values: array<vec4<f32>, 8u * STRIDE>;       // [8][lane]: 32 values of x for each lane

fn silu(z: vec4<f32>) -> vec4<f32> {
    return z / (1.0 + exp(min(-z, vec4<f32>(80.0))));      // not infinite, which some adapters do not reckon with
}

// What RMSNorm multiplies a row of x with, which begins at `row`.
fn norm_scale(row: u32) -> f32 {
    var squares = vec4<f32>();
    for (var k = lane; k < shape.x_quads; k += LANES) {
        squares += x[row + k] * x[row + k];
    }
    let sum = dot(sum_lanes(squares), vec4<f32>(1.0));
    return 1.0 / sqrt(sum / f32(shape.columns) + EPS);
}

// Fetch the values of x from group i on, neighbours by neighbouring lanes.
fn fetch(row: u32, i: u32, scale: f32) {
    for (var n = lane; n < 8u * LANES; n += LANES) {
        let k = 8u * i + n;
        if (k < shape.x_quads) {
            var v = x[row + k];
            if (NORMED) {
                v *= scale * norm[k];
            }
            values[n % 8u * STRIDE + n / 8u] = v;
        }
    }
}

fn kernel(group: vec3<u32>) {
    let t = group.y;
    let first = group.x * TILE;
    var row = t;
    if (GATHERED) {
        row = batch.row[batch.first_output + t].output;
    }
    row *= shape.x_quads;
    var scale = 1.0;
    if (NORMED) {
        scale = norm_scale(row);
    }
    let groups = (shape.columns + 31u) / 32u;
    var sums: array<vec4<f32>, PARTS>;
    for (var start = 0u; start < groups; start += LANES) {
        workgroupBarrier();
        fetch(row, start, scale);
        workgroupBarrier();
        let i = start + lane;
        if (i < groups) {
            var h: array<vec4<f32>, 8>;
            var sum = vec4<f32>();
            for (var k = 0u; k < 8u; k++) {
                h[k] = values[k * STRIDE + lane];
                sum += h[k];
            }
            for (var part = 0u; part < PARTS; part++) {
                for (var r = 0u; r < TILE; r++) {
                    let of_w = part * shape.rows + min(first + r, shape.rows - 1u);
                    sums[part][r] += product(of_w, i, &h, dot(sum, vec4<f32>(1.0)));
                }
            }
        }
    }
    var made = sum_lanes(sums[0]);
    if (GATED) {
        made = silu(made) * sum_lanes(sums[PARTS - 1u]);
    }
    if (lane < TILE && first + lane < shape.rows) {
        let to = t * shape.y_stride + shape.first + first + lane;
        var value = made[lane];
        if (BIASED) {
            value += bias[shape.first + first + lane];
        }
        if (ADDED) {
            value += y[to];
        }
        y[to] = value;
    }
}
