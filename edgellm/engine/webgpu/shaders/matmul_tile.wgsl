// Common parts of matrix × matrix shaders. A workgroup computes a tile of y: SIDE rows of W by SIDE rows of x. Both are
// loaded in steps of 32 columns, by 64 lanes each, into tiles [columns][SIDE], from which neighbouring lanes read
// different banks. A lane computes the sums of 8 consecutive rows of W and 4 rows of x, 16 apart.

const SIDE: u32 = 64u;
const APART: u32 = 16u;

struct Place {
    row: u32,           // of the lane in the tile
    t: u32,
}

fn place() -> Place {
    return Place(lane / APART * 8u, lane % APART);
}

// Store the sums of four rows of W from `row` on, each for 4 rows of x from `t` on.
fn put_sums(row: u32, t: u32, rows: u32, sums: mat4x4<f32>) {
    put_row(row, t, rows, sums[0]);
    put_row(row + 1u, t, rows, sums[1]);
    put_row(row + 2u, t, rows, sums[2]);
    put_row(row + 3u, t, rows, sums[3]);
}

fn put_row(row: u32, t: u32, rows: u32, sums: vec4<f32>) {
    put_inside(row, t, rows, sums.x);
    put_inside(row, t + APART, rows, sums.y);
    put_inside(row, t + 2u * APART, rows, sums.z);
    put_inside(row, t + 3u * APART, rows, sums.w);
}

fn put_inside(row: u32, t: u32, rows: u32, sum: f32) {
    if (row < shape.rows && t < rows) {
        put_sum(row, t, sum);
    }
}
