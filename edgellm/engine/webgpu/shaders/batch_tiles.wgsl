// Matrix × matrix by one matrix: tiles of SIDE rows of x.
//
//     COUNT     0: all rows of the batch, 1: the rows of wanted logits

@group(0) @binding(1) var<storage, read> batch: Batch;

struct Tile {
    t: u32,             // first row of x and y
    end: u32,           // behind the last
    matrix: u32,        // first row of the matrix in W
}

fn tile_of(place: u32) -> Tile {
    return Tile(place * SIDE, select(batch.rows, batch.outputs, COUNT == 1u), 0u);
}

// The row of x that row t of y is computed from.
fn x_row(t: u32) -> u32 {
    return t;
}

// The place in `bias` at which the biases for row t of y begin.
fn bias_start(t: u32) -> u32 {
    return 0u;
}
