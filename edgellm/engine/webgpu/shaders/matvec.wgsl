// Matrix × vector, for few rows: y[t][first + r] = W[r] · x[t] (+ bias), for r = 0 … rows - 1. Which rows of x, and which
// matrix of a stack, is for one_matrix.wgsl or expert_matrices.wgsl to say.
//
// A workgroup computes EACH tiles of TILE rows of y for one row of x. Its lanes divide the columns, 32 at a time, then
// add up their sums. If a row of x fits workgroup memory, it is loaded once for all tiles.
// W may stack several tensors; a tile has rows of one of them. `products(tensor, r, rows, i, x)` multiplies a lane's x
// (see x_values.wgsl and x_packed.wgsl) by weights 32i … of rows r … r + 3 of the tensor.
//
//     NORMED    x is normed first (RMSNorm with weight `norm`), by each workgroup, as x is small
//     GATED     W is a gate above an up projection of as many rows each: y = f(gate · x) · (up · x), f as in f_*.wgsl
//     BIASED    + bias[first + r]
//     ADDED     y += instead of y =
//
//     x [rows][x_vec4s] of vec4, zeros behind the last column;  y [rows][y_stride];  norm [x_vec4s] of vec4

@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

const TILE: u32 = 4u;
const STRIDE: u32 = LANES + 1u;                 // one more than LANES, so that neighbouring lanes use different banks

var<workgroup> values: array<vec4<f32>, 8u * STRIDE>;       // [8][lane]: 32 values of x for each lane

struct Place {
    tensor: u32,
    row: u32,       // of the tensor
    rows: u32,      // that it has
    before: u32,    // rows of the tensors above it
}

fn place_of(tile: u32) -> Place {
    let tiles_0 = (shape.below_0 + TILE - 1u) / TILE;
    if (GATED || TENSORS == 1u || tile < tiles_0) {
        return Place(0u, TILE * tile, shape.below_0, 0u);
    }
    let rows_1 = shape.below_1 - shape.below_0;
    let tiles_1 = tiles_0 + (rows_1 + TILE - 1u) / TILE;
    if (TENSORS == 2u || tile < tiles_1) {
        return Place(1u, TILE * (tile - tiles_0), rows_1, shape.below_0);
    }
    return Place(2u, TILE * (tile - tiles_1), shape.rows - shape.below_1, shape.below_1);
}

// Load vec4 n, from group i on, of a row of x to workgroup memory, and return its squares.
fn fetch(row: u32, i: u32, n: u32) -> vec4<f32> {
    let k = min(8u * i + n, shape.x_vec4s - 1u);
    let v = x[row + k];
    if (NORMED) {
        values[n % 8u * STRIDE + n / 8u] = v * norm[k];
    } else {
        values[n % 8u * STRIDE + n / 8u] = v;
    }
    return select(vec4<f32>(), v * v, 8u * i + n < shape.x_vec4s);
}

fn four_of(k: u32) -> mat4x4<f32> {
    let at = k * STRIDE + lane;
    return mat4x4<f32>(values[at], values[at + STRIDE], values[at + 2u * STRIDE], values[at + 3u * STRIDE]);
}

// Load a row of x from group i on, and return the sums of its squares.
fn fetch_all(row: u32, i: u32) -> vec4<f32> {
    workgroupBarrier();
    var squares = fetch(row, i, lane) + fetch(row, i, lane + LANES);
    squares += fetch(row, i, lane + 2u * LANES) + fetch(row, i, lane + 3u * LANES);
    squares += fetch(row, i, lane + 4u * LANES) + fetch(row, i, lane + 5u * LANES);
    squares += fetch(row, i, lane + 6u * LANES) + fetch(row, i, lane + 7u * LANES);
    workgroupBarrier();
    return squares;
}

fn kernel(group: vec3<u32>) {
    let t = group.y;
    let row = x_row(t) * shape.x_vec4s;
    let groups = select(0u, (shape.columns + 31u) / 32u, is_here(t));
    var scale = 1.0;
    var own: X;
    for (var k = 0u; k < EACH; k++) {
        let place = place_of(group.x * EACH + k);
        let matrix = matrix_row(place.tensor, t);
        var squares = vec4<f32>();
        var sums = vec4<f32>();
        var ups = vec4<f32>();
        for (var start = 0u; start < groups; start += LANES) {
            if (k == 0u || groups > LANES) {
                squares += fetch_all(row, start);
                own = x_of(four_of(0u), four_of(4u));
            }
            let i = start + lane;
            if (i < groups) {
                sums += products(place.tensor, matrix + place.row, matrix + place.rows, i, own);
                if (GATED) {
                    let up = matrix_row(1u, t);
                    ups += products(1u, up + place.row, up + place.rows, i, own);
                }
            }
        }
        if (NORMED && k == 0u) {
            scale = inverseSqrt(dot(sum_lanes(squares), vec4<f32>(1.0)) / f32(shape.columns) + EPS);
        }
        var made = scale * sum_lanes(sums);
        if (GATED) {
            made = activated(made) * (scale * sum_lanes(ups));
        }
        if (lane < TILE && place.row + lane < place.rows && is_here(t)) {
            put_sum(place.before + place.row + lane, t, made[lane]);
        }
    }
}
