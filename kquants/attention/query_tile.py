"""A tile of queries: those that go through the pages of a KV head together, one KV block after the other.

Memory of a tile, in the thread's scratch: arrays over its queries, at most QUERY_TILE, then a buffer.

    ranges   [QUERY_TILE][2] int64, by row: the first cell that it sees, and the end of those that it sees
    q        [QUERY_TILE][padded key_dim] float32, or a quantized row each
    weights  [QUERY_TILE][KV_BLOCK] float32: scores, then weights
    merged   [QUERY_TILE] partial results of the KV blocks so far
    partials [QUERY_TILE] partial results of the last KV block
    buffer   [PAGE · the larger padded size of a head] float32: a page of keys or values, converted
"""

import math
from typing import NamedTuple

from kquants.attention.float_pages import WEIGHTS_BYTES, SeenCells
from kquants.attention.micro_tile import DECODE_QUERIES, PREFILL_QUERIES
from kquants.compiler.decorators import inline
from kquants.kv_layout import QUERY_TILE, partial_bytes
from kquants.records import AttentionOp
from kquants.simd import load_i32, load_i64, store_i64
from kquants.threadpool.interpreter import arguments_of, batch_of, batch_row, row_count

_WHOLE_MICRO_TILES = math.lcm(DECODE_QUERIES, PREFILL_QUERIES)
assert QUERY_TILE % _WHOLE_MICRO_TILES == 0, "scratch has no room for a micro-tile that is filled up"
_RANGE_BYTES = 16
partial_length = inline(partial_bytes)
attention_of = arguments_of(AttentionOp)


class QueryTile(NamedTuple):
    """Heads h … h + heads - 1, of KV head g, of rows t … t + rows - 1 of an op, all of one sequence.

    Query i is head h + i mod heads of row t + i / heads. The rows see some of the cells first … end - 1, each cell is
    seen by one of them. Widths are the padded sizes of a head of K and V; `memory` is where the tile's memory begins.
    """

    t: int
    rows: int
    first: int
    end: int
    g: int
    h: int
    heads: int
    key_width: int
    value_width: int
    memory: int


@inline
def end_cell(op: int, batch: int, t: int) -> int:
    """The end of the cells that row t of an op sees."""
    return int(load_i32(batch_of(batch).visible + 4 * batch_row(op, batch, t)))


@inline
def first_cell(op: int, batch: int, t: int) -> int:
    """The first cell that row t of an op sees, through the op's window."""
    first, window = int(load_i32(batch_of(batch).first + 4 * batch_row(op, batch, t))), attention_of(op).window
    if window <= 0:
        return first
    end = end_cell(op, batch, t)
    return max(first, (end - 1) // window * window if attention_of(op).chunked else end - window)


@inline
def query_source(op: int, batch: int, t: int, h: int) -> int:
    """Address of head h of q of row t of an op."""
    given = attention_of(op)
    row = t if given.q_outputs else batch_row(op, batch, t)
    if given.has_slots != 0:
        rows = row_count(op, batch) if given.q_outputs else batch_of(batch).rows
        return given.q + (h * rows + row) * given.q_bytes
    return given.q + row * given.q_bytes + 4 * h * given.key_dim


@inline
def note_ranges(op: int, batch: int, tile: QueryTile) -> None:
    """Write the ranges of cells that the rows see."""
    for r in range(tile.rows):
        store_i64(tile.memory + _RANGE_BYTES * r, first_cell(op, batch, tile.t + r))
        store_i64(tile.memory + _RANGE_BYTES * r + 8, end_cell(op, batch, tile.t + r))


@inline
def _noted_first(tile: QueryTile, r: int) -> int:
    return load_i64(tile.memory + _RANGE_BYTES * r)


@inline
def _noted_end(tile: QueryTile, r: int) -> int:
    return load_i64(tile.memory + _RANGE_BYTES * r + 8)


@inline
def _counted_from(cell: int, start: int, n: int) -> int:
    """A cell counted from `start`, or the nearest of 0 … n."""
    return max(0, min(n, cell - start))


@inline
def cells_seen(tile: QueryTile, i: int, start: int, n: int) -> tuple[int, int]:
    """Which of the n cells from `start` on query i sees: the first and the end, counted from `start`, 0 … n."""
    r = i // tile.heads
    return _counted_from(_noted_first(tile, r), start, n), _counted_from(_noted_end(tile, r), start, n)


@inline
def cells_seen_together(tile: QueryTile, i: int, stop: int, start: int, n: int) -> SeenCells:
    """Which of the n cells from `start` on queries i … stop - 1 see, counted from `start`."""
    r, last = i // tile.heads, (stop - 1) // tile.heads
    first, end = _noted_first(tile, r), _noted_end(tile, r)
    all_from, all_to = first, end
    for k in range(r + 1, last + 1):
        low, high = _noted_first(tile, k), _noted_end(tile, k)
        first, all_from, all_to, end = min(first, low), max(all_from, low), min(all_to, high), max(end, high)
    first, end = _counted_from(first, start, n), _counted_from(end, start, n)
    all_from, all_to = _counted_from(all_from, start, n), _counted_from(all_to, start, n)
    if all_from >= all_to:
        all_from, all_to = end, end
    return SeenCells(first, all_from, all_to, end)


@inline
def is_prefill_sized(queries: int) -> bool:
    """Whether there are enough queries, as in prefill, that converting a page to float32 is worth its time."""
    return queries > 2 * DECODE_QUERIES


@inline
def round_up_to_micro_tile(queries: int) -> int:
    """The number of queries, rounded up to whole micro-tiles."""
    size = _WHOLE_MICRO_TILES if is_prefill_sized(queries) else DECODE_QUERIES
    return (queries + size - 1) // size * size


@inline
def query_at(tile: QueryTile, i: int) -> int:
    """Address of query i."""
    return tile.memory + QUERY_TILE * _RANGE_BYTES + 4 * tile.key_width * i


@inline
def weights_at(tile: QueryTile, i: int) -> int:
    """Address of query i's scores or weights."""
    return query_at(tile, QUERY_TILE) + WEIGHTS_BYTES * i


@inline
def merged_at(tile: QueryTile, i: int) -> int:
    """Address of query i's partial result of the KV blocks so far."""
    return weights_at(tile, QUERY_TILE) + partial_length(tile.value_width) * i


@inline
def partial_at(tile: QueryTile, i: int) -> int:
    """Address of query i's partial result of the last KV block."""
    return merged_at(tile, QUERY_TILE + i)


@inline
def buffer_at(tile: QueryTile) -> int:
    """Address of the buffer for a converted page."""
    return merged_at(tile, 2 * QUERY_TILE)
