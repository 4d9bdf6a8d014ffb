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

// The products of x with TILE rows of W from row `first` on, those past row `last` left as they come.
fn products(first: u32, last: u32, row: u32, scale: f32) -> vec4<f32> {
    var sums = vec4<f32>();
    for (var i = lane; i < (shape.columns + 31u) / 32u; i += LANES) {
        var h: array<vec4<f32>, 8>;
        var sum = vec4<f32>();
        for (var k = 0u; k < 8u; k++) {
            h[k] = x[row + 8u * i + k];
            if (NORMED) {
                h[k] *= scale * norm[8u * i + k];
            }
            sum += h[k];
        }
        for (var r = 0u; r < TILE; r++) {
            sums[r] += product(min(first + r, last), i, &h, dot(sum, vec4<f32>(1.0)));
        }
    }
    return sum_lanes(sums);
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
    var made = vec4<f32>();
    for (var half = 0u; half < select(1u, 2u, GATED); half++) {     // the gate, then the up projection
        let sums = products(half * shape.rows + first, (half + 1u) * shape.rows - 1u, row, scale);
        made = select(silu(made) * sums, sums, half == 0u);
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
