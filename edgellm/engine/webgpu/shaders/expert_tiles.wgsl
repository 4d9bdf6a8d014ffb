// Matrix × matrix by the matrices of a stack: tiles of slots of one expert each, as plan.wgsl writes them.
//
//     SLOTS             slots of a row of x; 1: x has a row for each slot
//     MATRICES          that the buffer of W has, from matrix FIRST_MATRIX of the stack on
//     STORED, FIRST     rows of each matrix, and the first of them that y has
//     CHOICES_AT        see plan.wgsl

@group(0) @binding(1) var<storage, read> plan: array<u32>;

struct Tile {
    t: u32,
    end: u32,
    matrix: u32,
}

var<private> own_bias: u32;

fn tile_of(place: u32) -> Tile {
    let expert = plan[3u * place];
    own_bias = expert * STORED + FIRST;
    let matrix = expert - FIRST_MATRIX;
    let end = select(0u, plan[3u * place + 2u], matrix < MATRICES);
    return Tile(plan[3u * place + 1u], end, matrix * STORED + FIRST);
}

fn x_row(t: u32) -> u32 {
    if (SLOTS == 1u) {
        return t;
    }
    return plan[CHOICES_AT + t] / SLOTS;
}

fn bias_start(t: u32) -> u32 {
    return own_bias;
}
