// Rows of x as int8, for matmuls by quantized weights; a lane quantizes 32 values (see x_packed.wgsl).
//
//     x       [rows][X_VEC4S] of vec4, zeros behind the last column
//     q       [rows][X_VEC4S / 4] of vec4: x / d rounded, four int8 in a word
//     scales  [rows][X_VEC4S / 8]: d = max|x| / 127 of 32 values, and their sum of d · q

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> q: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> scales: array<vec2<f32>>;

fn four(at: u32) -> mat4x4<f32> {
    return mat4x4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
}

fn kernel(group: vec3<u32>) {
    let i = group.x * LANES + lane;
    if (i < X_VEC4S / 8u) {
        let at = group.y * X_VEC4S + 8u * i;
        let own = x_of(four(at), four(at + 4u));
        q[at / 4u] = own.first;
        q[at / 4u + 1u] = own.last;
        scales[at / 8u] = vec2<f32>(own.d, own.sum);
    }
}
