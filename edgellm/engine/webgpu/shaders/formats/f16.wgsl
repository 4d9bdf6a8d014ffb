// F16: a weight is half a word, and so a row may begin in the middle of one. Behind the last column is 0.
fn unpack_WEIGHTS(row: u32, i: u32) -> array<vec4<f32>, 8> {
    var w: array<vec4<f32>, 8>;
    if (shape.columns % 32u == 0u) {
        let at = row * (shape.columns / 2u) + 16u * i;
        for (var k = 0u; k < 16u; k++) {
            let both = unpack2x16float(WEIGHTS[at + k]);
            w[k / 2u][k % 2u * 2u] = both.x;
            w[k / 2u][k % 2u * 2u + 1u] = both.y;
        }
        return w;
    }
    for (var k = 0u; k < 32u; k++) {
        let column = 32u * i + k;
        let at = row * shape.columns + min(column, shape.columns - 1u);
        let both = unpack2x16float(WEIGHTS[at / 2u]);
        w[k / 4u][k % 4u] = select(0.0, both[at % 2u], column < shape.columns);
    }
    return w;
}
