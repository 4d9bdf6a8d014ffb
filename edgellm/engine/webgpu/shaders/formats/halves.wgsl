
// Weights of half a word each, which `pair` takes apart, and so a row may begin in the middle of one. Behind the last
// column is 0.
fn unpack_WEIGHTS(row: u32, i: u32) -> array<vec4<f32>, 8> {
    var w: array<vec4<f32>, 8>;
    if (shape.columns % 32u == 0u) {
        let at = row * (shape.columns / 2u) + 16u * i;
        for (var k = 0u; k < 8u; k++) {
            w[k] = vec4<f32>(pair_WEIGHTS(WEIGHTS[at + 2u * k]), pair_WEIGHTS(WEIGHTS[at + 2u * k + 1u]));
        }
        return w;
    }
    for (var k = 0u; k < 32u; k++) {
        let column = 32u * i + k;
        let at = row * shape.columns + min(column, shape.columns - 1u);
        w[k / 4u][k % 4u] = select(0.0, pair_WEIGHTS(WEIGHTS[at / 2u])[at % 2u], column < shape.columns);
    }
    return w;
}
