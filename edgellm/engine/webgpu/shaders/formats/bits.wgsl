// Taking words apart; bytes are counted from the lowest.
//
// What a lane has several of is vectors and matrices, and no array that a loop goes through: such arrays lie in memory
// on some GPUs, where everything that is made of them waits for it.

// 32 weights of a quantized format: w = d · q - m, with four int8 q in a word; d.x is of the first 16, d.y of the last.
struct Block {
    first: vec4<u32>,
    last: vec4<u32>,
    d: vec2<f32>,
    m: f32,
}

// 32 values, four in a column.
struct Values {
    first: mat4x4<f32>,
    last: mat4x4<f32>,
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

// Bytes of values below 128, minus `offset` below 128: as int8, without borrows between bytes.
fn minus(words: vec4<u32>, offset: u32) -> vec4<u32> {
    return ((words | vec4<u32>(0x80808080u)) - vec4<u32>(offset * 0x01010101u)) ^ vec4<u32>(0x80808080u);
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
