// A piece of a layer's KV pages: as many as a binding holds.

struct KVRange {
    first: u32,         // page of the piece
    pages: u32,
    has_previous: u32,  // 1: pieces before it were gone through
    has_next: u32,      // 1: pieces behind it will be
}

// The place of a page in the piece; of one that is in another piece a number not below `kv_range.pages`.
fn local_page(page: u32) -> u32 {
    return page - kv_range.first;
}
