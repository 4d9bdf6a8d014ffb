// The rows of a batch, as `edgellm.engine.webgpu.batch_layout` writes them.

const PAGE: u32 = 64u;      // tokens of a KV page

struct Row {
    first: u32,             // the cells of its sequence that row i sees: from `first` on, within the window of the layer,
    visible: u32,           // up to `visible` - 1
    cell: u32,              // the cell that row i writes
    table: u32,             // index in `tables` of its sequence's page ids
    output: u32,            // not of row i: the i-th row whose logits are wanted
    tile: u32,              // not of row i: the i-th tile of attention: first row | number of rows << 16
}

struct Batch {
    rows: u32,
    outputs: u32,           // rows of logits of this submission
    first_output: u32,      // index of the first of them among all outputs
    spans: u32,             // spans that sequences are split into
    span_pages: u32,        // pages of a span; the first span begins at the first page that a tile sees
    row: array<Row>,
}
