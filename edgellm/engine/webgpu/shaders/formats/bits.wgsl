// Taking words apart; bytes are counted from the lowest.
//
// A lane's values are in vectors and matrices, not in arrays that a loop indexes: some GPUs keep such arrays in memory.

// 32 weights of a quantized format: w = d · q - m, with four int8 q in a word; d.x is of the first 16, d.y of the last.
// HALVED: they differ, and m is 0.
struct Block {
    first: vec4<u32>,
    last: vec4<u32>,
    d: vec2<f32>,
    m: f32,
}

// 32 bytes.
struct Bytes {
    first: vec4<u32>,
    last: vec4<u32>,
}

// 32 values, four in a column.
struct Values {
    first: mat4x4<f32>,
    last: mat4x4<f32>,
}

// The 32 bytes of a, b and c from byte `at` % 16 on, which is even: shifted by eight bytes, by four, by two.
fn shifted(a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, at: u32) -> Bytes {
    let by_8 = (at & 8u) != 0u;
    let a_8 = select(a, vec4<u32>(a.zw, b.xy), by_8);
    let b_8 = select(b, vec4<u32>(b.zw, c.xy), by_8);
    let c_8 = select(c.xy, c.zw, by_8);
    let by_4 = (at & 4u) != 0u;
    let a_4 = select(a_8, vec4<u32>(a_8.yzw, b_8.x), by_4);
    let b_4 = select(b_8, vec4<u32>(b_8.yzw, c_8.x), by_4);
    let c_4 = select(c_8.x, c_8.y, by_4);
    let by_2 = (at & 2u) != 0u;
    let half = vec4<u32>(16u);
    let a_2 = select(a_4, a_4 >> half | vec4<u32>(a_4.yzw, b_4.x) << half, by_2);
    let b_2 = select(b_4, b_4 >> half | vec4<u32>(b_4.yzw, c_4) << half, by_2);
    return Bytes(a_2, b_2);
}

fn signed_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(word));
}

fn sixteen_bytes(q: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(signed_bytes(q.x), signed_bytes(q.y), signed_bytes(q.z), signed_bytes(q.w));
}

fn dot_sixteen(a: mat4x4<f32>, b: mat4x4<f32>) -> f32 {
    return dot(a[0], b[0]) + dot(a[1], b[1]) + dot(a[2], b[2]) + dot(a[3], b[3]);
}

// The sum of the products of 16 int8 each, on top of `more`.
fn dot_bytes(a: vec4<u32>, b: vec4<u32>, more: i32) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w) + more;
}

// Bytes of values below 128, minus `offset` below 128: as int8, without borrows between bytes.
fn minus(words: vec4<u32>, offset: u32) -> vec4<u32> {
    return ((words | vec4<u32>(0x80808080u)) - vec4<u32>(offset * 0x01010101u)) ^ vec4<u32>(0x80808080u);
}

// Bits 0 … 15 of a word as bit 4 of 16 bytes.
fn fifth_bits(bits: u32) -> vec4<u32> {
    let fours = vec4<u32>(bits) >> vec4<u32>(0u, 4u, 8u, 12u) & vec4<u32>(15u);
    let apart = fours | fours << vec4<u32>(7u) | fours << vec4<u32>(14u) | fours << vec4<u32>(21u);
    return (apart & vec4<u32>(0x01010101u)) << vec4<u32>(4u);
}

// Twice the floats of 4 bits in 16 bytes, as int8: the magnitudes of bits 0 … 2 are nibbles of a constant.
fn twice_float4(q: vec4<u32>) -> vec4<u32> {
    var magnitudes = vec4<u32>();
    for (var at = 0u; at < 32u; at += 8u) {
        let place = vec4<u32>(4u) * (q >> vec4<u32>(at) & vec4<u32>(7u));
        magnitudes |= (vec4<u32>(0xC8643210u) >> place & vec4<u32>(15u)) << vec4<u32>(at);
    }
    let negative = (q >> vec4<u32>(3u) & vec4<u32>(0x01010101u)) * 255u;
    return minus(vec4<u32>(0x0C0C0C0Cu) + magnitudes - (2u * magnitudes & negative), 12u);
}

// The 6-bit scale and minimum of block j = 0 … 7 out of the 12 bytes at 4 of a Q4_K or Q5_K super-block.
//
//     byte j        | scale j+4, bits 5-4 |   scale j, bits 5-0    |       for j = 0 … 3
//     byte 4 + j    | min j+4, bits 5-4   |   min j, bits 5-0      |
//     byte 8 + j    | min j+4, bits 3-0   | scale j+4, bits 3-0    |
fn scale_and_minimum(packed: vec3<u32>, j: u32) -> vec2<f32> {
    let at = packed >> vec3<u32>(8u * (j % 4u));
    let low = vec2<u32>(at.z, at.z >> 4u) & vec2<u32>(15u);
    let high = at.xy >> vec2<u32>(6u) & vec2<u32>(3u);
    return vec2<f32>(select(low | high << vec2<u32>(4u), at.xy & vec2<u32>(63u), j < 4u));
}
