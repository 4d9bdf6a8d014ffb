// BF16: a weight is half a word, the upper half of a float32. Behind the last column is 0.
fn unpack_WEIGHTS(row: u32, i: u32) -> array<vec4<f32>, 8> {
    var w: array<vec4<f32>, 8>;
    for (var k = 0u; k < 32u; k++) {
        let column = 32u * i + k;
        let at = row * shape.columns + min(column, shape.columns - 1u);
        let word = WEIGHTS[at / 2u];
        w[k / 4u][k % 4u] = select(0.0, bitcast<f32>(select(word << 16u, word & 0xFFFF0000u, at % 2u == 1u)), column < shape.columns);
    }
    return w;
}
