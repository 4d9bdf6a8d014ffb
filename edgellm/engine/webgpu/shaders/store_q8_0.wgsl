// The largest absolute value of the 32 of the head among which quad d4 is; where it is Inf the scale is, too.
fn largest_around(d4: u32) -> f32 {
    let start = d4 / 8u * 32u;
    var largest = 0.0;
    for (var d = start; d < min(start + 32u, HEAD_DIM); d++) {
        largest = max(largest, abs(head[d]));
    }
    return largest;
}

fn store_quad(page: u32, g: u32, values: bool, d4: u32, j: u32, quad: vec4<f32>) {
    let largest = largest_around(d4);
    kv[quad_at(page, g, values, d4, j)] = rounded(quad * steps_of(largest));
    if (d4 % 8u == 0u) {
        kv[scale_at(page, g, values, d4, j)] = bitcast<u32>(largest / 127.0);
    }
}
