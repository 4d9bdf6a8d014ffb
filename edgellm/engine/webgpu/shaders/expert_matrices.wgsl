// Matrix × vector by a matrix of a stack: row t of y is a slot, which has the expert chosen[t].
//
//     SLOTS             slots of a row of x; 1: x has a row for each slot
//     MATRICES          that the buffer of W has, from matrix FIRST_MATRIX of the stack on
//     STORED, FIRST     rows of each matrix of the first tensor, and the first of them that y has
//     UP_STORED, UP_FIRST   of the second

@group(0) @binding(1) var<storage, read> chosen: array<u32>;

fn is_here(t: u32) -> bool {
    return chosen[t] - FIRST_MATRIX < MATRICES;
}

fn x_row(t: u32) -> u32 {
    return t / SLOTS;
}

fn matrix_row(tensor: u32, t: u32) -> u32 {
    let matrix = min(chosen[t] - FIRST_MATRIX, MATRICES - 1u);
    return select(matrix * UP_STORED + UP_FIRST, matrix * STORED + FIRST, tensor == 0u);
}

fn bias_start(t: u32) -> u32 {
    return chosen[t] * STORED + FIRST;
}
