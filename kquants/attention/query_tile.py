"""A tile of queries: those that go through the pages of a KV head together, one KV block after the other.

The thread's scratch holds arrays over the QUERY_TILE queries of a tile, then a buffer:

    q        [QUERY_TILE][width] float32, or a quantized row each
    weights  [QUERY_TILE][KV_BLOCK] float32: scores, then weights
    merged   [QUERY_TILE] partial results of the KV blocks so far
    partials [QUERY_TILE] partial results of the last KV block
    buffer   [PAGE · width] float32: a page of keys or values, converted
"""

import math
from typing import NamedTuple

from kquants.attention.float_pages import WEIGHTS_BYTES
from kquants.attention.micro_tile import DECODE_QUERIES, PREFILL_QUERIES
from kquants.compiler.decorators import inline
from kquants.kv_layout import KV_BLOCK_PAGES, PAGE, QUERY_TILE, partial_bytes
from kquants.records import AttentionOp
from kquants.simd import load_i32
from kquants.threadpool.interpreter import arguments_of, batch_of, batch_row

KV_BLOCK = KV_BLOCK_PAGES * PAGE
"""Cells of a KV block."""

_WHOLE_MICRO_TILES = math.lcm(DECODE_QUERIES, PREFILL_QUERIES)
assert QUERY_TILE % _WHOLE_MICRO_TILES == 0, "scratch has no room for a micro-tile that is filled up"
partial_length = inline(partial_bytes)
attention_of = arguments_of(AttentionOp)


class QueryTile(NamedTuple):
    """Heads h … h + heads - 1, of KV head g, of rows t … t + rows - 1, consecutive tokens of one sequence.

    Query i is head h + i mod heads of row t + i / heads. The first row sees `visible` cells, each other row one more
    than the row before it.
    """

    t: int
    rows: int
    visible: int
    g: int
    h: int
    heads: int
    scratch: int


@inline
def visible_cells(op: int, batch: int, t: int) -> int:
    """Cells of its sequence that row t of an op sees."""
    return int(load_i32(batch_of(batch).visible + 4 * batch_row(op, batch, t)))


@inline
def cells_seen(tile: QueryTile, i: int, start: int, n: int) -> int:
    """How many of the n cells from `start` on query i sees."""
    return max(0, min(n, tile.visible + i // tile.heads - start))


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
def weights_at(tile: QueryTile, width: int, i: int) -> int:
    """Address of query i's scores or weights."""
    return tile.scratch + QUERY_TILE * 4 * width + WEIGHTS_BYTES * i


@inline
def merged_at(tile: QueryTile, width: int, i: int) -> int:
    """Address of query i's partial result of the KV blocks so far."""
    return weights_at(tile, width, QUERY_TILE) + partial_length(width) * i


@inline
def partial_at(tile: QueryTile, width: int, i: int) -> int:
    """Address of query i's partial result of the last KV block."""
    return merged_at(tile, width, QUERY_TILE + i)


@inline
def buffer_at(tile: QueryTile, width: int) -> int:
    """Address of the buffer for a converted page."""
    return merged_at(tile, width, 2 * QUERY_TILE)
