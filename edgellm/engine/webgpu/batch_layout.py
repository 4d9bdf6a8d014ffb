"""A batch of rows, as the shaders read it (see `shaders/batch.wgsl`)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.batch import Batch
from edgellm.engine.webgpu.offloaded import PositionKey, RowKind
from kquants.kv_layout import PAGE

HEADER, ROW = 5, 6
"""uint32 words of the header, and of each row."""

FIRST_OUTPUT = 2
"""The word of the header with the index of the first output."""

MAX_SPANS = 32
"""The most spans of whole pages that a sequence is split into."""

SIDE = 64
"""Rows of W, and of x, of a tile of matrix × matrix."""


class BatchLayout(NamedTuple):
    """A header with rows for each kind of rows, and the sizes that grids name (see `commands.Grid`).

    Sizes that depend on the kind of rows have its number in their name.
    """

    headers: list[NDArray[np.uint32]]
    sizes: dict[str, int]


def lay_out(batch: Batch, kinds: Sequence[RowKind], max_split_rows: int) -> BatchLayout:
    """The layout for layers of these kinds of rows.

    Batches of up to `max_split_rows` rows have their sequences split into spans.
    """
    headers, sizes = [], {"rows": batch.rows, "row tiles": -(-batch.rows // SIDE)}
    for i, kind in enumerate(kinds):
        header, tiles, spans = _lay_out_rows(batch, kind, batch.rows <= max_split_rows)
        headers.append(header)
        merged = batch.rows if spans > 1 else 0
        sizes |= {f"tiles {i}": tiles, f"spans {i}": spans, f"merged rows {i}": merged}
    return BatchLayout(headers, sizes)


def page_ids(batch: Batch, kv_group: int) -> NDArray[np.uint32]:
    """The page tables of all segments, one after the other. Freed pages have an id that no page has."""
    return np.concatenate([np.array(table, np.int32) for table in batch.tables[kv_group]]).view(np.uint32)


def position_rows(batch: Batch, key: PositionKey) -> NDArray[np.float32]:
    """For each row cosines and sines, and with a temperature its factor and 0 (see `shaders/heads.wgsl`)."""
    parts = [] if key.rope is None else [batch.position_values[key.rope]]
    if key.temperature is not None:
        parts += [batch.position_values[key.temperature], np.zeros((batch.rows, 1), np.float32)]
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def _lay_out_rows(batch: Batch, kind: RowKind, is_split: bool) -> tuple[NDArray[np.uint32], int, int]:
    """The header with its rows, the number of tiles, and the number of spans."""
    visible = np.array(batch.visible)
    first = np.array(batch.first) if kind.window is None else np.maximum(batch.first, visible - kind.window)
    tiles, starts = _tiles(batch.lengths, max(1, kind.queries // kind.share))
    # A tile begins at the first page that one of its rows sees, and ends with the last.
    pages = -(-np.maximum.reduceat(visible, starts) // PAGE) - np.minimum.reduceat(first, starts) // PAGE
    spans, span_pages = _spans(int(pages.max()), is_split)
    header = np.zeros(HEADER + ROW * max(batch.rows, len(tiles)), np.uint32)
    header[:HEADER] = batch.rows, batch.outputs, 0, spans, span_pages
    rows = header[HEADER:].reshape(-1, ROW)
    rows[: batch.rows, :3] = np.column_stack([first, visible, batch.cells])
    rows[: batch.rows, 3] = np.repeat(_table_starts(batch, kind.kv_group), batch.lengths)
    rows[: batch.outputs, 4] = batch.wanted
    rows[: len(tiles), 5] = tiles
    return header, len(tiles), spans


def _table_starts(batch: Batch, kv_group: int) -> list[int]:
    """Where the table of each segment begins in `page_ids`."""
    if not batch.tables:  # a model without attention
        return [0] * len(batch.lengths)
    lengths = [len(table) for table in batch.tables[kv_group]]
    return [0, *np.cumsum(lengths)[:-1].tolist()]


def _tiles(lengths: list[int], together: int) -> tuple[list[int], list[int]]:
    """Tiles of up to `together` consecutive rows of one sequence, each as first row | number of rows << 16.

    Also the first row of each.
    """
    tiles, starts, start = list[int](), list[int](), 0
    for n in lengths:
        starts += range(start, start + n, together)
        tiles += [start + i | min(together, n - i) << 16 for i in range(0, n, together)]
        start += n
    return tiles, starts


def _spans(pages: int, is_split: bool) -> tuple[int, int]:
    """The number of spans for tiles of up to `pages` pages, and the pages of a span."""
    if not is_split:
        return 1, pages
    span_pages = -(-pages // MAX_SPANS)
    return -(-pages // span_pages), span_pages
