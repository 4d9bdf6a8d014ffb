// The sizes of a matmul, whose W may stack several tensors.

struct Shape {
    rows: u32,              // rows of W of this dispatch
    first: u32,             // index of the first of them in a row of y
    columns: u32,
    x_vec4s: u32,           // vec4 of a row of x, padded with zeros to whole groups of 32 values
    y_stride: u32,          // values of a row of y
    below_0: u32,           // first row in W of the second tensor
    below_1: u32,           // and of the third
    unused: u32,
}

@group(0) @binding(0) var<uniform> shape: Shape;

// Store the sum of a row of W for row t of x in y: FACTOR · (sum + bias), capped as SOFT_CAP · tanh(v / SOFT_CAP) unless
// SOFT_CAP is 0, or added to y. The shader has the bindings and flags of y.
fn put_sum(row: u32, t: u32, sum: f32) {
    let to = shape.first + row;
    let at = t * shape.y_stride + to;
    var value = sum;
    if (BIASED) {
        value += bias[bias_start(t) + to];
    }
    value *= FACTOR;
    if (SOFT_CAP > 0.0) {
        value = SOFT_CAP * tanh_of(value / SOFT_CAP);
    }
    if (ADDED) {
        value += y[at];
    }
    y[at] = value;
}
