// A piece of a layer's KV pages: as many as a binding holds.

struct Piece {
    first: u32,         // page of the piece
    pages: u32,
    continues: u32,     // 1: pieces before it were gone through
    goes_on: u32,       // 1: pieces behind it will be
}

// The place of a page in the piece; of one that is in another piece a number not below `piece.pages`.
fn here(page: u32) -> u32 {
    return page - piece.first;
}
