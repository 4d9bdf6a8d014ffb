// Matrix × matrix in integers, for quantized weights: y[t][first + r] = W[r] · x[t] (+ bias), x as quantize.wgsl has it
// (see matmul_tile.wgsl, and matmul.wgsl for x and W).
//
// The sums of 16 or 32 products, four at a time, are exact; d · (d_x · q · q_x) - m · (d_x · q_x) is added up in
// float32.
//
//     BIASED    + bias[first + r]
//     ADDED     y += instead of y =
//
//     q [rows][x_vec4s / 4] of vec4, scales [rows][x_vec4s / 8];  y [rows][y_stride]

@group(0) @binding(2) var<storage, read> q: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

// The tiles: lanes below SIDE load a row of W each, the others a row of x.
var<workgroup> firsts: array<vec4<u32>, 2u * SIDE>;         // columns 0 … 15 of 32
var<workgroup> lasts: array<vec4<u32>, 2u * SIDE>;          // columns 16 … 31
var<workgroup> all_scales: array<vec3<f32>, 2u * SIDE>;     // of W d of the first half, of the last, m

struct Fetched {
    first: vec4<u32>,
    last: vec4<u32>,
    scales: vec3<f32>,
}

fn fetch(row: u32, tile: Tile, i: u32) -> Fetched {
    if (lane < SIDE) {
        let w = block_w0(tile.matrix + min(row + lane, shape.rows - 1u), i);
        return Fetched(w.first, w.last, vec3<f32>(w.d, w.m));
    }
    let at = x_row(min(tile.t + lane - SIDE, tile.end - 1u)) * (shape.x_vec4s / 4u) + 2u * i;
    return Fetched(q[at], q[at + 1u], vec3<f32>(scales[at / 2u], 0.0));
}

// 16 columns of four rows of x.
struct Four {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
}

fn four_products(w: vec4<u32>, v: Four, more: vec4<i32>) -> vec4<i32> {
    let a = dot_bytes(w, v.a, more.x);
    let b = dot_bytes(w, v.b, more.y);
    let c = dot_bytes(w, v.c, more.z);
    let d = dot_bytes(w, v.d, more.w);
    return vec4<i32>(a, b, c, d);
}

// Converts integers below 2^22 that were added to WHOLE: the last bits of the float 1.5 · 2^23 + n are those of n. Some
// GPUs convert at a quarter of the speed of other instructions.
const WHOLE: vec4<i32> = vec4<i32>(0x4B400000);

fn floats(n: vec4<i32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(n) - vec4<f32>(12582912.0);
}

// Products of 32 columns of a row of W with four rows of x.
fn of_row(row: u32, first: Four, last: Four, x_scale: vec4<f32>, x_sum: vec4<f32>) -> vec4<f32> {
    let scale = all_scales[row];
    let half = four_products(firsts[row], first, WHOLE);
    if (HALVED_w0) {
        let other = floats(four_products(lasts[row], last, WHOLE));
        return (scale.x * floats(half) + scale.y * other) * x_scale;
    }
    return scale.x * floats(four_products(lasts[row], last, half)) * x_scale - scale.z * x_sum;
}

fn of_rows(row: u32, first: Four, last: Four, x_scale: vec4<f32>, x_sum: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        of_row(row, first, last, x_scale, x_sum),
        of_row(row + 1u, first, last, x_scale, x_sum),
        of_row(row + 2u, first, last, x_scale, x_sum),
        of_row(row + 3u, first, last, x_scale, x_sum),
    );
}

fn kernel(group: vec3<u32>) {
    let tile = tile_of(group.y);
    let row = group.x * SIDE;
    let own = place();
    let groups = select(0u, shape.columns / 32u, tile.t < tile.end);
    var upper = mat4x4<f32>();      // sums of four rows of W, each for four rows of x
    var lower = mat4x4<f32>();      // and of the next four
    var next = fetch(row, tile, 0u);
    for (var i = 0u; i < groups; i++) {
        workgroupBarrier();
        firsts[lane] = next.first;
        lasts[lane] = next.last;
        all_scales[lane] = next.scales;
        workgroupBarrier();
        next = fetch(row, tile, min(i + 1u, groups - 1u));       // loaded while the current ones are multiplied
        let at = SIDE + own.t;
        let a = all_scales[at];
        let b = all_scales[at + APART];
        let c = all_scales[at + 2u * APART];
        let d = all_scales[at + 3u * APART];
        let x_scale = vec4<f32>(a.x, b.x, c.x, d.x);
        let x_sum = vec4<f32>(a.y, b.y, c.y, d.y);
        let first = Four(firsts[at], firsts[at + APART], firsts[at + 2u * APART], firsts[at + 3u * APART]);
        let last = Four(lasts[at], lasts[at + APART], lasts[at + 2u * APART], lasts[at + 3u * APART]);
        upper += of_rows(own.row, first, last, x_scale, x_sum);
        lower += of_rows(own.row + 4u, first, last, x_scale, x_sum);
    }
    put_sums(row + own.row, tile.t + own.t, tile.end, upper);
    put_sums(row + own.row + 4u, tile.t + own.t, tile.end, lower);
}
