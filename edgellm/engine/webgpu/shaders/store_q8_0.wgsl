// The largest magnitude of the 32 values of the head that vec4 d4 is one of; if it is Inf, so is the scale.
fn largest_around(d4: u32) -> f32 {
    let start = d4 / 8u * 32u;
    var largest = 0.0;
    for (var d = start; d < min(start + 32u, HEAD_DIM); d++) {
        largest = max(largest, abs(head[d]));
    }
    return largest;
}

fn store_vec4(page: u32, g: u32, values: bool, d4: u32, j: u32, v: vec4<f32>) {
    let largest = largest_around(d4);
    kv[vec4_at(page, g, values, d4, j)] = rounded(v * steps_of(largest));
    if (d4 % 8u == 0u) {
        kv[scale_at(page, g, values, d4, j)] = bitcast<u32>(largest / 127.0);
    }
}
