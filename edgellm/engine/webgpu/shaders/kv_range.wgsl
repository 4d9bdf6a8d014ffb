// The KV pages of a layer in one buffer; a layer has several buffers if its pages do not fit a binding.

struct KVRange {
    first: u32,         // first page in the buffer
    pages: u32,
    has_previous: u32,  // 1: buffers before this one were processed
    has_next: u32,      // 1: buffers after this one follow
}

// The index of a page in the buffer; not below `kv_range.pages` if the page is in another buffer.
fn local_page(page: u32) -> u32 {
    return page - kv_range.first;
}
