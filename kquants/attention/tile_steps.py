"""What a tile of queries does with a KV block: scores with all its keys, weights, the sum of the weighted values."""

import math
from typing import Any, NamedTuple

import numba as nb

from kquants.attention.micro_tile import DECODE_QUERIES
from kquants.attention.page_readers import PageOps, PageReader
from kquants.attention.pages import head_width, page_address
from kquants.attention.query_tile import (
    KV_BLOCK,
    QueryTile,
    attention_of,
    buffer_at,
    cells_seen,
    is_prefill_sized,
    partial_at,
    partial_length,
    round_up_to_micro_tile,
    weights_at,
)
from kquants.attention.softmax import clear, find_largest, to_weights
from kquants.compiler.decorators import inline
from kquants.kv_layout import KV_BLOCK_PAGES, PAGE, PageSizes
from kquants.simd import load_f32x16_part, mul_f32, splat_f32, store_f32x16
from kquants.threadpool.interpreter import batch_row

_LOG2_E = nb.float32(math.log2(math.e))


class TileSteps(NamedTuple):
    """`load_queries(op, batch, tile)`, then for each KV block `attend_block(op, batch, tile, block, next_page)`, which
    writes its partial results. `keys_at(op, batch, t, g, page)` is where the keys of row t's KV head g are in a page.
    """

    load_queries: Any
    attend_block: Any
    keys_at: Any


def _define_passes(ops: PageOps) -> tuple[Any, Any]:
    """`score(tile, j, keys, head_dim, next_page)` with page j of a KV block, and
    `add(tile, start, j, values, width, next_page)` of its values; `start` is the block's first cell."""
    page_scores, add_page_values, scores_queries, values_queries = ops

    @inline
    def score(tile: QueryTile, j: int, keys: int, head_dim: int, next_page: int) -> None:
        width = head_width(head_dim)
        for i in range(0, round_up_to_micro_tile(tile.rows * tile.heads), scores_queries):
            q, p = tile.scratch + 4 * width * i, weights_at(tile, width, i) + 4 * PAGE * j
            page_scores(q, 4 * width, keys, head_dim, p, next_page)

    @inline
    def add(tile: QueryTile, start: int, j: int, values: int, width: int, next_page: int) -> None:
        queries = tile.rows * tile.heads
        for i in range(0, queries, values_queries):
            seen = cells_seen(tile, i, start + PAGE * j, PAGE)
            cells = cells_seen(tile, min(i + values_queries, queries) - 1, start + PAGE * j, PAGE)
            p, to = weights_at(tile, width, i) + 4 * PAGE * j, partial_at(tile, width, i)
            add_page_values(p, seen, cells, values, width, to, partial_length(width), next_page)

    return score, add


def tile_steps(reader: PageReader, sizes: PageSizes) -> TileSteps:
    """The steps for pages of a type."""
    load_query, convert_keys, convert_values = reader.load_query, reader.convert_keys, reader.convert_values
    (score_few, add_few), (score_many, add_many) = _define_passes(reader.few), _define_passes(reader.many)
    key_bytes, value_bytes = inline(sizes.key_bytes), inline(sizes.value_bytes)

    @inline
    def load_queries(op: int, batch: int, tile: QueryTile) -> None:
        """Gather the queries, times scale and log2 e, and fill up the last micro-tile with zeros."""
        given = attention_of(op)
        head_dim, width = given.head_dim, head_width(given.head_dim)
        buffer = buffer_at(tile, width)
        scale = splat_f32(given.scale * _LOG2_E)
        queries = tile.rows * tile.heads
        for i in range(round_up_to_micro_tile(queries)):
            row = batch_row(op, batch, tile.t + min(i, queries - 1) // tile.heads)
            x = given.q + row * given.q_bytes + 4 * (tile.h + i % tile.heads) * head_dim
            for d in range(0, width + 16, 16):
                x_part = load_f32x16_part(x + 4 * d, head_dim - d if i < queries else 0)
                store_f32x16(buffer + 4 * d, mul_f32(x_part, scale))
            load_query(buffer, width, tile.scratch + 4 * width * i)

    @inline
    def keys_at(op: int, batch: int, t: int, g: int, page: int) -> int:
        given = attention_of(op)
        return page_address(batch, batch_row(op, batch, t), page) + given.page_offset + g * key_bytes(given.head_dim)

    @inline
    def values_at(op: int, batch: int, t: int, g: int, page: int) -> int:
        given = attention_of(op)
        return keys_at(op, batch, t, given.kv_heads, page) + g * value_bytes(head_width(given.head_dim))

    @inline
    def score_page(op: int, tile: QueryTile, j: int, keys: int, next_page: int) -> None:
        """Scores of all queries with page j of a KV block."""
        head_dim = attention_of(op).head_dim
        if is_prefill_sized(tile.rows * tile.heads):
            keys = convert_keys(keys, head_dim, buffer_at(tile, head_width(head_dim)), next_page)
            score_many(tile, j, keys, head_dim, keys)
        else:
            score_few(tile, j, keys, head_dim, next_page)

    @inline
    def weigh(op: int, tile: QueryTile, first: int, start: int, cells: int) -> None:
        """Turn the scores of DECODE_QUERIES queries, from `first` on, into weights."""
        width = head_width(attention_of(op).head_dim)
        last = min(first + DECODE_QUERIES, tile.rows * tile.heads)
        for i in range(first, last):
            seen = cells_seen(tile, i, start, KV_BLOCK)
            find_largest(weights_at(tile, width, i), seen, partial_at(tile, width, i) + 4 * width)
        for i in range(first, last):
            seen = cells_seen(tile, i, start, KV_BLOCK)
            to_weights(weights_at(tile, width, i), seen, cells, partial_at(tile, width, i) + 4 * width)

    @inline
    def add_page(op: int, tile: QueryTile, start: int, j: int, values: int, next_page: int) -> None:
        """Add the weighted values of page j of the KV block whose first cell is `start`."""
        width = head_width(attention_of(op).head_dim)
        if is_prefill_sized(tile.rows * tile.heads):
            values = convert_values(values, width, buffer_at(tile, width), next_page)
            add_many(tile, start, j, values, width, values)
        else:
            add_few(tile, start, j, values, width, next_page)

    @inline
    def attend_block(op: int, batch: int, tile: QueryTile, block: int, next_page: int) -> None:
        """Write the partial results of a KV block; `next_page` is what is read after it."""
        queries, first, start = tile.rows * tile.heads, block * KV_BLOCK_PAGES, block * KV_BLOCK
        cells = cells_seen(tile, queries - 1, start, KV_BLOCK)
        pages = (cells + PAGE - 1) // PAGE
        for j in range(pages):
            keys = keys_at(op, batch, tile.t, tile.g, first + j)
            if j + 1 < pages:
                following = keys_at(op, batch, tile.t, tile.g, first + j + 1)
            else:
                following = values_at(op, batch, tile.t, tile.g, first)
            score_page(op, tile, j, keys, following)
        width = head_width(attention_of(op).head_dim)
        for i in range(round_up_to_micro_tile(queries)):
            clear(partial_at(tile, width, i), width)
        for i in range(0, queries, DECODE_QUERIES):
            weigh(op, tile, i, start, cells)
        for j in range(pages):
            values = values_at(op, batch, tile.t, tile.g, first + j)
            following = values_at(op, batch, tile.t, tile.g, first + j + 1) if j + 1 < pages else next_page
            add_page(op, tile, start, j, values, following)

    return TileSteps(load_queries, attend_block, keys_at)
