// The sizes of a matrix product, whose weights may be several tensors below each other.

struct Shape {
    rows: u32,              // of W that this dispatch makes
    first: u32,             // place of the first of them in a row of y
    columns: u32,
    x_quads: u32,           // vec4 of a row of x, padded with zeros to whole groups of 32 values
    y_stride: u32,          // values of a row of y
    below_0: u32,           // where in W the second tensor begins
    below_1: u32,           // and the third
    unused: u32,
}

@group(0) @binding(0) var<uniform> shape: Shape;

// Put the sum of a row of W for row t of x where it belongs in y, whose bindings and flags the product has.
fn put_sum(row: u32, t: u32, sum: f32) {
    let to = shape.first + row;
    let at = t * shape.y_stride + to;
    var value = sum;
    if (BIASED) {
        value += bias[to];
    }
    if (ADDED) {
        value += y[at];
    }
    y[at] = value;
}
