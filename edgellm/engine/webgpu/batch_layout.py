"""A batch of rows, as the shaders read it (see `shaders/batch.wgsl`)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.batch import Batch
from kquants.kv_layout import PAGE

HEADER, ROW = 5, 4
"""uint32 words of the header, and of each row."""

FIRST_OUTPUT = 2
"""The word of the header with the index of the first output."""

QUERIES = 8
"""Queries of a tile of attention, at most."""

MAX_SPANS = 32
"""The most spans of whole pages that a sequence is split into."""

SIDE = 64
"""Rows of W, and of x, of a tile of matrix × matrix."""


class BatchLayout(NamedTuple):
    """The arrays of a batch, and the sizes that grids name (see `edgellm.engine.webgpu.commands.Grid`)."""

    header: NDArray[np.uint32]
    tables: NDArray[np.uint32]
    cos_sin: NDArray[np.float32]
    sizes: dict[str, int]


def lay_out(batch: Batch, group: int, max_split_rows: int) -> BatchLayout:
    """The layout for a model with `group` query heads for each KV head.

    Batches of up to `max_split_rows` rows have their sequences split into spans.
    """
    tiles = _tiles(batch.lengths, max(1, QUERIES // group))
    pages = -(-max(batch.visible) // PAGE)
    spans, span_pages = _spans(pages, batch.rows <= max_split_rows)
    lengths = [len(table) for table in batch.tables]
    header = np.zeros(HEADER + ROW * max(batch.rows, len(tiles)), np.uint32)
    header[:HEADER] = batch.rows, batch.outputs, 0, spans, span_pages
    rows = header[HEADER:].reshape(-1, ROW)
    rows[: batch.rows, 0] = batch.visible
    rows[: batch.rows, 1] = np.repeat(np.cumsum([0, *lengths[:-1]]), batch.lengths)
    rows[: batch.outputs, 2] = batch.wanted
    rows[: len(tiles), 3] = tiles
    sizes = {
        "rows": batch.rows,
        "row tiles": -(-batch.rows // SIDE),
        "tiles": len(tiles),
        "spans": spans,
        "merged rows": batch.rows if spans > 1 else 0,
    }
    tables = np.concatenate([np.array(table, np.uint32) for table in batch.tables])
    return BatchLayout(header, tables, batch.cos_sin, sizes)


def _tiles(lengths: list[int], together: int) -> list[int]:
    """Tiles of up to `together` consecutive rows of one sequence, each as first row | number of rows << 16."""
    found, start = [], 0
    for n in lengths:
        found += [start + i | min(together, n - i) << 16 for i in range(0, n, together)]
        start += n
    return found


def _spans(pages: int, is_split: bool) -> tuple[int, int]:
    """The number of spans for sequences of up to `pages` pages, and the pages of a span."""
    if not is_split:
        return 1, pages
    span_pages = -(-pages // MAX_SPANS)
    return -(-pages // span_pages), span_pages
