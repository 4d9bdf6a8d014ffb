// Values as int8, in steps of d = max|x| / 127.

// 1 / d for the largest magnitude; 0 for values that are all nearly 0.
fn steps_of(largest: f32) -> f32 {
    return select(0.0, 127.0 / largest, largest >= 1e-36);
}

// Four values as bytes of a word.
fn rounded(steps: vec4<f32>) -> u32 {
    let q = vec4<u32>(vec4<i32>(round(steps))) & vec4<u32>(255u);
    return q.x | q.y << 8u | q.z << 16u | q.w << 24u;
}
