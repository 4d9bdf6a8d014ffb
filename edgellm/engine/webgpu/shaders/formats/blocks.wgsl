
fn unpack_WEIGHTS(row: u32, i: u32) -> Values {
    let block = block_WEIGHTS(row, i);
    let column = vec4<f32>(block.m);
    let m = mat4x4<f32>(column, column, column, column);
    return Values(block.d.x * sixteen_bytes(block.first) - m, block.d.y * sixteen_bytes(block.last) - m);
}
