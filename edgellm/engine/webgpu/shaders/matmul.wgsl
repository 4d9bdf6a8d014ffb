// Matrix × matrix, for many rows: y[t][first + r] = W[r] · x[t] (+ bias), for r = 0 … rows - 1 and all t.
// See matmul_tile.wgsl for the work of a workgroup; which rows of x, and which matrix of a stack, is for batch_tiles.wgsl
// or expert_tiles.wgsl to say.
//
//     BIASED    + bias[first + r]
//     W_TYPE    how unpacked weights are kept: f32, or f16 for quantized ones where the adapter has it
//     ADDED     y += instead of y =
//
//     x [rows][x_vec4s] of vec4, zeros behind the last column;  y [rows][y_stride]

@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

var<workgroup> w_tile: array<vec4<W_TYPE>, 8u * SIDE>;      // [vec4s of columns][rows of W]
var<workgroup> x_tile: array<vec4<f32>, 8u * SIDE>;         // [vec4s of columns][rows of x], see x_at

// The index of vec4 k of row t. Rows are permuted, eight by eight, so that the vec4 of a row are in different banks.
fn x_at(k: u32, t: u32) -> u32 {
    return k * SIDE + (t ^ k);
}

fn put_vec4(k: u32, v: vec4<f32>) {
    w_tile[k * SIDE + lane] = vec4<W_TYPE>(v);
}

fn fetch(row: u32, tile: Tile, i: u32) {
    if (lane < SIDE) {
        let w = unpack_w0(tile.matrix + min(row + lane, shape.rows - 1u), i);
        put_vec4(0u, w.first[0]);
        put_vec4(1u, w.first[1]);
        put_vec4(2u, w.first[2]);
        put_vec4(3u, w.first[3]);
        put_vec4(4u, w.last[0]);
        put_vec4(5u, w.last[1]);
        put_vec4(6u, w.last[2]);
        put_vec4(7u, w.last[3]);
    } else {
        for (var n = lane - SIDE; n < 8u * SIDE; n += SIDE) {       // neighbouring lanes load neighbouring values of x
            let k = n % 8u;
            x_tile[x_at(k, n / 8u)] = x[x_row(min(tile.t + n / 8u, tile.end - 1u)) * shape.x_vec4s + 8u * i + k];
        }
    }
}

// Products of four columns of four rows of W with 4 rows of x.
fn of_rows(k: u32, row: u32, v: mat4x4<f32>) -> mat4x4<f32> {
    let at = k * SIDE + row;
    return mat4x4<f32>(
        vec4<f32>(w_tile[at]) * v,
        vec4<f32>(w_tile[at + 1u]) * v,
        vec4<f32>(w_tile[at + 2u]) * v,
        vec4<f32>(w_tile[at + 3u]) * v,
    );
}

fn kernel(group: vec3<u32>) {
    let tile = tile_of(group.y);
    let row = group.x * SIDE;
    let own = place();
    var upper = mat4x4<f32>();      // sums of 4 rows of W, each for 4 rows of x
    var lower = mat4x4<f32>();      // and of the next 4
    let groups = select(0u, (shape.columns + 31u) / 32u, tile.t < tile.end);
    for (var i = 0u; i < groups; i++) {
        workgroupBarrier();
        fetch(row, tile, i);
        workgroupBarrier();
        for (var k = 0u; k < 8u; k++) {
            let at = x_at(k, own.t);
            let v = mat4x4<f32>(x_tile[at], x_tile[at + APART], x_tile[at + 2u * APART], x_tile[at + 3u * APART]);
            upper += of_rows(k, own.row, v);
            lower += of_rows(k, own.row + 4u, v);
        }
    }
    put_sums(row + own.row, tile.t + own.t, tile.end, upper);
    put_sums(row + own.row + 4u, tile.t + own.t, tile.end, lower);
}
