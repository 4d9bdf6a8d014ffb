// Taking words apart; bytes are counted from the lowest.

// 32 weights of a quantized format: w = d · q - m, with four int8 q in a word; d.x is of the first 16, d.y of the last.
struct Block {
    q: array<u32, 8>,
    d: vec2<f32>,
    m: f32,
}

fn signed_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(word << 24u, word << 16u, word << 8u, word)) >> vec4<u32>(24u));
}

// Each byte of a word of values below 128, minus `offset` below 128: as int8, without borrows between bytes.
fn minus(word: u32, offset: u32) -> u32 {
    return ((word | 0x80808080u) - offset * 0x01010101u) ^ 0x80808080u;
}

// The 6-bit scale and minimum of block j = 0 … 7 out of the 12 bytes at 4 of a Q4_K or Q5_K super-block.
//
//     byte j        | scale j+4, bits 5-4 |   scale j, bits 5-0    |       for j = 0 … 3
//     byte 4 + j    | min j+4, bits 5-4   |   min j, bits 5-0      |
//     byte 8 + j    | min j+4, bits 3-0   | scale j+4, bits 3-0    |
fn scale_and_minimum(packed: vec3<u32>, j: u32) -> vec2<f32> {
    let at = packed >> vec3<u32>(8u * (j % 4u));
    if (j < 4u) {
        return vec2<f32>(at.xy & vec2<u32>(63u));
    }
    let low = vec2<u32>(at.z & 15u, at.z >> 4u & 15u);
    return vec2<f32>(low | (at.xy >> vec2<u32>(6u) & vec2<u32>(3u)) << vec2<u32>(4u));
}
