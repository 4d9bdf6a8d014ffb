"""The record of a batch of rows."""

from typing import NamedTuple

from kquants.records.header import Word


class BatchRecord(NamedTuple):
    """A batch of rows; a row is one token of one sequence, and consecutive rows of one sequence are a segment."""

    rows: Word
    outputs: Word = 0
    """Number of rows whose logits are wanted."""
    segments: Word = 0
    """Number of segments."""
    segment_rows: Word = 0
    """int32[segments + 1], the row at which each segment begins, then `rows`. Each segment has a row at least."""
    tokens: Word = 0
    """int32[rows], token ids."""
    embeddings: Word = 0
    """int64[rows], address of the float32[width] that row t starts from, or 0 for the embedding of its token. Null: all
    rows start from those of their tokens."""
    positions: Word = 0
    """int32[rows], position of the row in its sequence: the row of the position tables that it uses."""
    cells: Word = 0
    """int32[rows], the cell of its sequence that the row writes."""
    first: Word = 0
    """int32[rows], the first cell of its sequence that the row sees; a layer's window may begin later."""
    visible: Word = 0
    """int32[rows], the end of the cells that the row sees: `first` … `visible` - 1."""
    output_rows: Word = 0
    """int32[outputs], the rows whose logits are wanted."""
    position_tables: Word = 0
    """int64[tables], address of each table of float32 by position: cosines and sines of RoPE, or factors of q."""
    page_tables: Word = 0
    """int64[KV groups, rows], address of the page table (int32 page ids) of the row's sequence. Pages that no row will
    see any more have no id, but -1."""
    pages: Word = 0
    """int64[KV groups + 1], address of the array int64[pages] with the address of each KV page, by page id; last the
    state pages of recurrent layers."""
    states: Word = 0
    """int32[segments], the state page that each segment begins with; -1: with zeros, as nothing was computed yet."""
    kept_states: Word = 0
    """int32[rows], the state page that gets the states behind a row; -1: they are not kept. Those behind the last row
    of a segment always are."""
