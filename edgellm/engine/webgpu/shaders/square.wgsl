// What matrix products have in common that make squares of y: SIDE rows of W by SIDE rows of x in a workgroup. Both are
// fetched in steps of 32 columns, 64 lanes for each, into tiles [columns][SIDE], in which neighbouring lanes find what
// they need in different banks; then a lane makes the sums of 8 rows of W, one below the other, and 4 of x, 16 apart.

const SIDE: u32 = 64u;
const APART: u32 = 16u;

struct Place {
    row: u32,           // of the lane in the square
    t: u32,
}

fn place() -> Place {
    return Place(lane / APART * 8u, lane % APART);
}

// Put the sums of 8 rows of W from `row` on, each for 4 rows of x from `t` on, where they belong in y.
fn put_sums(row: u32, t: u32, rows: u32, made: array<vec4<f32>, 8>) {
    var sums = made;
    for (var r = 0u; r < 8u; r++) {
        for (var c = 0u; c < 4u; c++) {
            if (row + r < shape.rows && t + APART * c < rows) {
                let to = shape.first + row + r;
                let at = (t + APART * c) * shape.y_stride + to;
                var value = sums[r][c];
                if (BIASED) {
                    value += bias[to];
                }
                if (ADDED) {
                    value += y[at];
                }
                y[at] = value;
            }
        }
    }
}
