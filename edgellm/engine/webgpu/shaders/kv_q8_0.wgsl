// KV pages of type q8_0: a byte for each value, and a float32 scale for every 32 of a head in a cell.
// For each KV head its keys, then its values; the words of either are its vec4s, then its scales.
//
//     K  vec4s [HEAD_DIM / 4][PAGE], scales [BLOCKS][PAGE]     so that neighbouring lanes read neighbouring keys
//     V  vec4s [PAGE][HEAD_DIM / 4], scales [PAGE][BLOCKS]

const BLOCKS: u32 = (HEAD_DIM + 31u) / 32u;
const SIDE_WORDS: u32 = PAGE * (HEAD_DIM / 4u + BLOCKS);

fn vec4_at(page: u32, g: u32, values: bool, d4: u32, j: u32) -> u32 {
    let index = select(d4 * PAGE + j, SIDE_WORDS + j * (HEAD_DIM / 4u) + d4, values);
    return (page * KV_HEADS + g) * 2u * SIDE_WORDS + index;
}

fn scale_at(page: u32, g: u32, values: bool, d4: u32, j: u32) -> u32 {
    let scale = select(d4 / 8u * PAGE + j, SIDE_WORDS + j * BLOCKS + d4 / 8u, values);
    return (page * KV_HEADS + g) * 2u * SIDE_WORDS + PAGE * (HEAD_DIM / 4u) + scale;
}

// Values 4 · d4 … 4 · d4 + 3 of token j of a page, of the key or the value of KV head g.
fn load_vec4(page: u32, g: u32, values: bool, d4: u32, j: u32) -> vec4<f32> {
    let word = kv[vec4_at(page, g, values, d4, j)];
    return vec4<f32>(unpack4xI8(word)) * bitcast<f32>(kv[scale_at(page, g, values, d4, j)]);
}
