// The part of x that a lane multiplies by weights: 32 values as int8, x = d · q. One instruction computes four products,
// and weights are not converted to floats.

struct X {
    first: vec4<u32>,
    last: vec4<u32>,
    d: f32,
    sum: f32,           // of d · q
}

fn largest_of(v: mat4x4<f32>) -> f32 {
    let most = max(max(abs(v[0]), abs(v[1])), max(abs(v[2]), abs(v[3])));
    return max(max(most.x, most.y), max(most.z, most.w));
}

fn sixteen_rounded(v: mat4x4<f32>) -> vec4<u32> {
    return vec4<u32>(rounded(v[0]), rounded(v[1]), rounded(v[2]), rounded(v[3]));
}

fn x_of(first: mat4x4<f32>, last: mat4x4<f32>) -> X {
    let largest = max(largest_of(first), largest_of(last));
    let inverse = steps_of(largest);
    let d = largest / 127.0;
    let q = Bytes(sixteen_rounded(inverse * first), sixteen_rounded(inverse * last));
    let ones = vec4<u32>(0x01010101u);
    return X(q.first, q.last, d, d * f32(dot_bytes(q.first, ones, dot_bytes(q.last, ones, 0))));
}

fn product_of_block(block: Block, x: X) -> f32 {
    let n = vec2<f32>(vec2<i32>(dot_bytes(block.first, x.first, 0), dot_bytes(block.last, x.last, 0)));
    return x.d * dot(block.d, n) - block.m * x.sum;
}
