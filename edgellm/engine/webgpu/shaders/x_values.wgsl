// The part of x that a lane multiplies by weights: 32 values, and their sum.

struct X {
    first: mat4x4<f32>,
    last: mat4x4<f32>,
    sum: f32,
}

fn x_of(first: mat4x4<f32>, last: mat4x4<f32>) -> X {
    let fours = first + last;
    return X(first, last, dot(fours[0] + fours[1] + fours[2] + fours[3], vec4<f32>(1.0)));
}

fn product_of_block(block: Block, x: X) -> f32 {
    let first = dot_sixteen(sixteen_bytes(block.first), x.first);
    let last = dot_sixteen(sixteen_bytes(block.last), x.last);
    return block.d.x * first + block.d.y * last - block.m * x.sum;
}
