// The rows of a batch, as `edgellm.engine.webgpu.batch_layout` writes them.

const PAGE: u32 = 64u;      // tokens of a KV page

struct Row {
    visible: u32,           // cells of its sequence that row i sees, its own the last
    table: u32,             // where its sequence's page ids begin in `tables`
    output: u32,            // another matter: the i-th row whose logits are wanted
    tile: u32,              // and the i-th tile of attention: its first row | how many rows << 16
}

struct Batch {
    rows: u32,
    outputs: u32,           // logits wanted of this submission
    first_output: u32,      // and the first of them among all that are wanted
    spans: u32,             // partials in which attention goes through a sequence
    span_pages: u32,        // pages of a span
    row: array<Row>,
}
