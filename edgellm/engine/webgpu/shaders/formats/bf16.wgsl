// BF16: a weight is half a word, the upper half of a float32. Behind the last column is 0.
fn unpack_WEIGHTS(row: u32, i: u32) -> array<vec4<f32>, 8> {
    var w: array<vec4<f32>, 8>;
    if (shape.columns % 32u == 0u) {
        let at = row * (shape.columns / 2u) + 16u * i;
        for (var k = 0u; k < 16u; k++) {
            let both = bitcast<vec2<f32>>(vec2<u32>(WEIGHTS[at + k] << 16u, WEIGHTS[at + k] & 0xFFFF0000u));
            w[k / 2u][k % 2u * 2u] = both.x;
            w[k / 2u][k % 2u * 2u + 1u] = both.y;
        }
        return w;
    }
    for (var k = 0u; k < 32u; k++) {
        let column = 32u * i + k;
        let at = row * shape.columns + min(column, shape.columns - 1u);
        let word = WEIGHTS[at / 2u];
        let value = bitcast<f32>(select(word << 16u, word & 0xFFFF0000u, at % 2u == 1u));
        w[k / 4u][k % 4u] = select(0.0, value, column < shape.columns);
    }
    return w;
}
