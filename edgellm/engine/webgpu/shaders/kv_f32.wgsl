// KV pages of float32: for each KV head its keys, then its values, PAGE · HEAD_DIM words each.
//
//     K  [HEAD_DIM / 4][PAGE][4]     so that neighbouring lanes read neighbouring keys
//     V  [PAGE][HEAD_DIM / 4][4]

const HEAD_WORDS: u32 = 2u * PAGE * HEAD_DIM;

fn vec4_at(page: u32, g: u32, values: bool, d4: u32, j: u32) -> u32 {
    let index = select(d4 * PAGE + j, PAGE * HEAD_DIM / 4u + j * (HEAD_DIM / 4u) + d4, values);
    return (page * KV_HEADS + g) * HEAD_WORDS + 4u * index;
}

// Values 4 · d4 … 4 · d4 + 3 of token j of a page, of the key or the value of KV head g.
fn load_vec4(page: u32, g: u32, values: bool, d4: u32, j: u32) -> vec4<f32> {
    let at = vec4_at(page, g, values, d4, j);
    return bitcast<vec4<f32>>(vec4<u32>(kv[at], kv[at + 1u], kv[at + 2u], kv[at + 3u]));
}
