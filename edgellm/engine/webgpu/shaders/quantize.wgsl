// Rows of x as int8, for products with quantized weights; a lane takes 32 values at a time.
//
//     x       [rows][X_QUADS] of vec4, zeros behind the last column
//     q       [rows][X_QUADS]: x / d rounded, four int8 in a word
//     scales  [rows][X_QUADS / 8]: d = max|x| / 127 of 32 values, and their sum of d · q

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> q: array<u32>;
@group(0) @binding(2) var<storage, read_write> scales: array<vec2<f32>>;

fn kernel(group: vec3<u32>) {
    let i = group.x * LANES + lane;
    if (i < X_QUADS / 8u) {
        let at = group.y * X_QUADS + 8u * i;
        var most = vec4<f32>();
        for (var k = 0u; k < 8u; k++) {
            most = max(most, abs(x[at + k]));
        }
        let largest = max(max(most.x, most.y), max(most.z, most.w));
        let inverse = steps_of(largest);
        var sum = 0;
        for (var k = 0u; k < 8u; k++) {
            let word = rounded(x[at + k] * inverse);
            q[at + k] = word;
            sum += dot4I8Packed(word, 0x01010101u);
        }
        let d = largest / 127.0;
        scales[at / 8u] = vec2<f32>(d, d * f32(sum));
    }
}
