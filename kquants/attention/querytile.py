"""A tile of queries: those that go through the pages of a KV head together, span by span.

Scratch: for each of the QUERY_TILE queries

    q [width] | weights [SPAN] | what was merged, a partial result | that of a span

(all q first, then all weights, …) and a page of keys or values as float32 [PAGE · width].
"""

import math
from typing import Any, NamedTuple

import numba as nb

from kquants.attention.bundles import WEIGHTS_BYTES
from kquants.attention.lanes import MANY_QUERIES, QUERIES
from kquants.attention.pages import head_width, page_address
from kquants.attention.readers import Bundles, Reader
from kquants.attention.softmax import begin, find_top, weigh
from kquants.compiler.decorators import inline
from kquants.kv_layout import KV_BLOCK_PAGES, PAGE, QUERY_TILE, PageSizes, partial_bytes
from kquants.records import AttentionOp
from kquants.simd import load_f32x16_part, load_i32, mul_f32, splat_f32, store_f32x16
from kquants.threadpool.interpreter import arguments_of, batch_of, batch_row

SPAN = KV_BLOCK_PAGES * PAGE
"""Cells of a span."""

_LOG2_E = nb.float32(math.log2(math.e))
_WHOLE_BUNDLES = math.lcm(QUERIES, MANY_QUERIES)
assert QUERY_TILE % _WHOLE_BUNDLES == 0, "scratch has no room for a bundle that is filled up"
part_length = inline(partial_bytes)
attention_of = arguments_of(AttentionOp)


class QueryTile(NamedTuple):
    """Heads h … h + heads - 1, of KV head g, of rows t … t + rows - 1, consecutive tokens of one sequence.

    Query i is head h + i mod heads of row t + i / heads. The first row sees `visible` cells, each other one more
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
def own_cells(tile: QueryTile, i: int, start: int, most: int) -> int:
    """Cells that query i sees from `start` on, of the next `most`."""
    return max(0, min(most, tile.visible + i // tile.heads - start))


@inline
def _are_many(queries: int) -> bool:
    """Whether so many queries are worth expanding pages for."""
    return queries > 2 * QUERIES


@inline
def _filled_up(queries: int) -> int:
    """Queries with those that are added so that all bundles are whole."""
    size = _WHOLE_BUNDLES if _are_many(queries) else QUERIES
    return (queries + size - 1) // size * size


@inline
def _weights_at(tile: QueryTile, width: int, i: int) -> int:
    return tile.scratch + QUERY_TILE * 4 * width + WEIGHTS_BYTES * i


@inline
def merged_at(tile: QueryTile, width: int, i: int) -> int:
    """Address of query i's partial result of the spans so far."""
    return _weights_at(tile, width, QUERY_TILE) + part_length(width) * i


@inline
def part_at(tile: QueryTile, width: int, i: int) -> int:
    """Address of query i's partial result of the last span."""
    return merged_at(tile, width, QUERY_TILE + i)


@inline
def _room(tile: QueryTile, width: int) -> int:
    return merged_at(tile, width, 2 * QUERY_TILE)


class TileWork(NamedTuple):
    """`take_queries(op, batch, tile)`, then `attend_span(op, batch, tile, s, ahead)`: the partial results of span s.

    `keys_at(op, batch, t, g, page)`: where the keys of row t's KV head g are in a page.
    """

    take_queries: Any
    attend_span: Any
    keys_at: Any


def _go_through(bundles: Bundles) -> tuple[Any, Any]:
    """`score(tile, j, keys, head_dim, ahead)` with page j of a span; `gather(tile, start, j, values, width, ahead)`."""
    some_scores, some_gather, scores_together, gather_together = bundles

    @inline
    def score(tile: QueryTile, j: int, keys: int, head_dim: int, ahead: int) -> None:
        width = head_width(head_dim)
        for i in range(0, _filled_up(tile.rows * tile.heads), scores_together):
            q, p = tile.scratch + 4 * width * i, _weights_at(tile, width, i) + 4 * PAGE * j
            some_scores(q, 4 * width, keys, head_dim, p, ahead)

    @inline
    def gather(tile: QueryTile, start: int, j: int, values: int, width: int, ahead: int) -> None:
        queries = tile.rows * tile.heads
        for i in range(0, queries, gather_together):
            seen = own_cells(tile, i, start + PAGE * j, PAGE)
            cells = own_cells(tile, min(i + gather_together, queries) - 1, start + PAGE * j, PAGE)
            p, to = _weights_at(tile, width, i) + 4 * PAGE * j, part_at(tile, width, i)
            some_gather(p, seen, cells, values, width, to, part_length(width), ahead)

    return score, gather


def tile_work(reader: Reader, sizes: PageSizes) -> TileWork:
    """What tiles do with pages of a type."""
    take, expand_keys, expand_values = reader.take, reader.expand_keys, reader.expand_values
    (score_few, gather_few), (score_many, gather_many) = _go_through(reader.few), _go_through(reader.many)
    key_bytes, value_bytes = inline(sizes.key_bytes), inline(sizes.value_bytes)

    @inline
    def take_queries(op: int, batch: int, tile: QueryTile) -> None:
        """Bring the queries together, times scale and log2 e; the last bundles are filled up with zeros."""
        given = attention_of(op)
        head_dim, width = given.head_dim, head_width(given.head_dim)
        room = _room(tile, width)
        scale = splat_f32(given.scale * _LOG2_E)
        queries = tile.rows * tile.heads
        for i in range(_filled_up(queries)):
            row = batch_row(op, batch, tile.t + min(i, queries - 1) // tile.heads)
            x = given.q + row * given.q_bytes + 4 * (tile.h + i % tile.heads) * head_dim
            for d in range(0, width + 16, 16):
                x_part = load_f32x16_part(x + 4 * d, head_dim - d if i < queries else 0)
                store_f32x16(room + 4 * d, mul_f32(x_part, scale))
            take(room, width, tile.scratch + 4 * width * i)

    @inline
    def keys_at(op: int, batch: int, t: int, g: int, page: int) -> int:
        given = attention_of(op)
        return page_address(batch, batch_row(op, batch, t), page) + given.page_offset + g * key_bytes(given.head_dim)

    @inline
    def values_at(op: int, batch: int, t: int, g: int, page: int) -> int:
        given = attention_of(op)
        return keys_at(op, batch, t, given.kv_heads, page) + g * value_bytes(head_width(given.head_dim))

    @inline
    def score_page(op: int, tile: QueryTile, j: int, keys: int, ahead: int) -> None:
        """Scores of all queries with page j of a span."""
        head_dim = attention_of(op).head_dim
        if _are_many(tile.rows * tile.heads):
            keys = expand_keys(keys, head_dim, _room(tile, head_width(head_dim)), ahead)
            score_many(tile, j, keys, head_dim, keys)
        else:
            score_few(tile, j, keys, head_dim, ahead)

    @inline
    def weigh_bundle(op: int, tile: QueryTile, first: int, start: int, cells: int) -> None:
        """Turn the scores of a bundle into weights."""
        width = head_width(attention_of(op).head_dim)
        last = min(first + QUERIES, tile.rows * tile.heads)
        for i in range(first, last):
            own = own_cells(tile, i, start, SPAN)
            find_top(_weights_at(tile, width, i), own, part_at(tile, width, i) + 4 * width)
        for i in range(first, last):
            own = own_cells(tile, i, start, SPAN)
            weigh(_weights_at(tile, width, i), own, cells, part_at(tile, width, i) + 4 * width)

    @inline
    def gather_page(op: int, tile: QueryTile, start: int, j: int, values: int, ahead: int) -> None:
        """Add the weighted values of page j of the span from cell `start` on."""
        width = head_width(attention_of(op).head_dim)
        if _are_many(tile.rows * tile.heads):
            values = expand_values(values, width, _room(tile, width), ahead)
            gather_many(tile, start, j, values, width, values)
        else:
            gather_few(tile, start, j, values, width, ahead)

    @inline
    def attend_span(op: int, batch: int, tile: QueryTile, s: int, ahead: int) -> None:
        """The partial results of span s; `ahead` is what will be wanted after it."""
        queries, first, start = tile.rows * tile.heads, s * KV_BLOCK_PAGES, s * SPAN
        cells = own_cells(tile, queries - 1, start, SPAN)
        pages = (cells + PAGE - 1) // PAGE
        for j in range(pages):
            keys = keys_at(op, batch, tile.t, tile.g, first + j)
            if j + 1 < pages:
                more = keys_at(op, batch, tile.t, tile.g, first + j + 1)
            else:
                more = values_at(op, batch, tile.t, tile.g, first)
            score_page(op, tile, j, keys, more)
        width = head_width(attention_of(op).head_dim)
        for i in range(_filled_up(queries)):
            begin(part_at(tile, width, i), width)
        for i in range(0, queries, QUERIES):
            weigh_bundle(op, tile, i, start, cells)
        for j in range(pages):
            values = values_at(op, batch, tile.t, tile.g, first + j)
            more = values_at(op, batch, tile.t, tile.g, first + j + 1) if j + 1 < pages else ahead
            gather_page(op, tile, start, j, values, more)

    return TileWork(take_queries, attend_span, keys_at)
