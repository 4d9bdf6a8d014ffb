"""A tile of queries: those that go through the pages of a KV head together, one KV block after the other.

Memory of a tile, in the thread's scratch: arrays over its queries, at most QUERY_TILE, then a buffer.

    ranges   [QUERY_TILE][2] int64: the first cell that the query sees, and the end of those that it sees
    q        [QUERY_TILE][padded key_dim] float32, or a quantized row each
    weights  [QUERY_TILE][KV_BLOCK] float32: scores, then weights
    merged   [QUERY_TILE] partial results of the KV blocks so far
    partials [QUERY_TILE] partial results of the last KV block
    buffer   [PAGE · the larger padded size of a head] float32: a page of keys or values, converted
"""

import math
from typing import NamedTuple

from kquants.attention.float_pages import WEIGHTS_BYTES
from kquants.attention.micro_tile import DECODE_QUERIES, PREFILL_QUERIES
from kquants.compiler.decorators import inline
from kquants.kv_layout import QUERY_TILE, partial_bytes
from kquants.records import AttentionOp
from kquants.simd import load_i32, load_i64, store_i64
from kquants.threadpool.interpreter import arguments_of, batch_of, batch_row

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
    return max(first, end_cell(op, batch, t) - window) if window > 0 else first


@inline
def note_ranges(op: int, batch: int, tile: QueryTile) -> None:
    """Write the ranges of cells that the queries see."""
    for i in range(tile.rows * tile.heads):
        t = tile.t + i // tile.heads
        store_i64(tile.memory + _RANGE_BYTES * i, first_cell(op, batch, t))
        store_i64(tile.memory + _RANGE_BYTES * i + 8, end_cell(op, batch, t))


@inline
def seen_from(tile: QueryTile, i: int, start: int, n: int) -> int:
    """The first of the n cells from `start` on that query i sees, counted from `start`; 0 … n."""
    return max(0, min(n, load_i64(tile.memory + _RANGE_BYTES * i) - start))


@inline
def seen_to(tile: QueryTile, i: int, start: int, n: int) -> int:
    """The end of those of the n cells from `start` on that query i sees, counted from `start`; 0 … n."""
    return max(0, min(n, load_i64(tile.memory + _RANGE_BYTES * i + 8) - start))


@inline
def sees_any(tile: QueryTile, i: int, start: int, n: int) -> bool:
    """Whether query i sees any of the n cells from `start` on."""
    return bool(seen_from(tile, i, start, n) < seen_to(tile, i, start, n))


@inline
def seen_by_any(tile: QueryTile, i: int, stop: int, start: int, n: int) -> tuple[int, int]:
    """The range of the n cells from `start` on that holds all that any query i … stop - 1 sees."""
    low, high = seen_from(tile, i, start, n), seen_to(tile, i, start, n)
    for k in range(i + 1, stop):
        low, high = min(low, seen_from(tile, k, start, n)), max(high, seen_to(tile, k, start, n))
    return low, high


@inline
def seen_by_all(tile: QueryTile, i: int, stop: int, start: int, n: int) -> tuple[int, int]:
    """The range of the n cells from `start` on that all queries i … stop - 1 see; empty where its end is no larger."""
    low, high = seen_from(tile, i, start, n), seen_to(tile, i, start, n)
    for k in range(i + 1, stop):
        low, high = max(low, seen_from(tile, k, start, n)), min(high, seen_to(tile, k, start, n))
    return low, high


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
