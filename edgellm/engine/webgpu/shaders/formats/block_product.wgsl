
fn product_WEIGHTS(row: u32, i: u32, x: X) -> f32 {
    return product_of_block(block_WEIGHTS(row, i), x);
}
