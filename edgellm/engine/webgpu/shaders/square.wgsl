// What matrix products have in common that make squares of y.

const SIDE: u32 = 64u;

// Put the sums of 8 rows of W from `row` on, each for 4 rows of x from `t` on, where they belong in y.
fn put_sums(row: u32, t: u32, rows: u32, made: array<vec4<f32>, 8>) {
    var sums = made;
    for (var r = 0u; r < 8u; r++) {
        for (var c = 0u; c < 4u; c++) {
            if (row + r < shape.rows && t + c < rows) {
                let to = shape.first + row + r;
                let at = (t + c) * shape.y_stride + to;
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
