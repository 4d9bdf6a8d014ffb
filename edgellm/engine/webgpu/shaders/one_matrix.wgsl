// Matrix × vector by one matrix: row t of y is of row t of x, or with GATHERED of the t-th row whose logits are wanted.

@group(0) @binding(1) var<storage, read> batch: Batch;

fn is_here(t: u32) -> bool {
    return true;
}

// The row of x that row t of y is computed from.
fn x_row(t: u32) -> u32 {
    if (GATHERED) {
        return batch.row[batch.first_output + t].output;
    }
    return t;
}

// The row of a tensor at which the matrix for row t of y begins.
fn matrix_row(tensor: u32, t: u32) -> u32 {
    return 0u;
}

// The place in `bias` at which the biases for row t of y begin.
fn bias_start(t: u32) -> u32 {
    return 0u;
}
