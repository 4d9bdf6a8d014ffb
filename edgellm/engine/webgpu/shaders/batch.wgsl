// The rows of a batch, as `edgellm.engine.webgpu.batch_layout` writes them.

const PAGE: u32 = 64u;      // tokens of a KV page

struct Row {
    visible: u32,           // cells of its sequence that row i sees; the last is its own
    table: u32,             // index in `tables` of its sequence's page ids
    output: u32,            // not of row i: the i-th row whose logits are wanted
    tile: u32,              // not of row i: the i-th tile of attention: first row | number of rows << 16
}

struct Batch {
    rows: u32,
    outputs: u32,           // rows of logits of this submission
    first_output: u32,      // index of the first of them among all outputs
    spans: u32,             // spans that sequences are split into
    span_pages: u32,        // pages of a span
    row: array<Row>,
}
