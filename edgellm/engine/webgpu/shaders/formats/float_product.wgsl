
fn product_WEIGHTS(row: u32, i: u32, x: X) -> f32 {
    let w = unpack_WEIGHTS(row, i);
    return dot_sixteen(w.first, x.first) + dot_sixteen(w.last, x.last);
}
