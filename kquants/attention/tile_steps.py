"""What a tile of queries does with a KV block: scores with all its keys, weights, the sum of the weighted values."""

from typing import Any, NamedTuple

from kquants.attention.micro_tile import DECODE_QUERIES
from kquants.attention.page_readers import PageOps, PageReader
from kquants.attention.pages import head_width, page_address
from kquants.attention.query_tile import (
    QueryTile,
    attention_of,
    buffer_at,
    cells_seen,
    cells_seen_together,
    is_prefill_sized,
    note_ranges,
    partial_at,
    partial_length,
    query_at,
    query_source,
    round_up_to_micro_tile,
    weights_at,
)
from kquants.attention.softmax import LOG2_E, cap_scores, clear, find_largest, hide, to_weights
from kquants.compiler.decorators import inline
from kquants.kv_layout import KV_BLOCK, KV_BLOCK_PAGES, PAGE, PageSizes
from kquants.simd import load_f32x16_part, mul_f32, splat_f32, store_f32x16
from kquants.threadpool.interpreter import batch_row


class TileSteps(NamedTuple):
    """`load_queries(op, batch, tile)`, then for each KV block `attend_block(op, batch, tile, block, next_page)`, which
    writes its partial results. `keys_at(op, batch, t, g, page)` is where the keys of row t's KV head g are in a page.
    """

    load_queries: Any
    attend_block: Any
    keys_at: Any


def _define_passes(ops: PageOps) -> tuple[Any, Any]:
    """`score(tile, j, keys, key_dim, next_page)` with page j of a KV block, and
    `add(tile, start, j, values, next_page)` of its values; `start` is the block's first cell."""
    page_scores, add_page_values, scores_queries, values_queries = ops

    @inline
    def score(tile: QueryTile, j: int, keys: int, key_dim: int, next_page: int) -> None:
        for i in range(0, tile.rows * tile.heads, scores_queries):
            p = weights_at(tile, i) + 4 * PAGE * j
            page_scores(query_at(tile, i), 4 * tile.key_width, keys, key_dim, p, next_page)

    @inline
    def add(tile: QueryTile, start: int, j: int, values: int, next_page: int) -> None:
        queries, width = tile.rows * tile.heads, tile.value_width
        for i in range(0, queries, values_queries):
            seen = cells_seen_together(tile, i, min(i + values_queries, queries), start + PAGE * j, PAGE)
            p, to = weights_at(tile, i) + 4 * PAGE * j, partial_at(tile, i)
            add_page_values(p, seen, values, width, to, partial_length(width), next_page)

    return score, add


@inline
def _weigh_block(tile: QueryTile, start: int, soft_cap: float) -> None:
    """Turn the scores of a KV block, whose first cell is `start`, into weights, for all queries."""
    queries = tile.rows * tile.heads
    low, high = max(0, tile.first - start), min(KV_BLOCK, tile.end - start)
    if soft_cap > 0:
        for i in range(queries):
            seen, end = cells_seen(tile, i, start, KV_BLOCK)
            cap_scores(weights_at(tile, i), seen, end, soft_cap)
    for first in range(0, queries, DECODE_QUERIES):
        last = min(first + DECODE_QUERIES, queries)
        for i in range(first, last):
            seen, end = cells_seen(tile, i, start, KV_BLOCK)
            find_largest(weights_at(tile, i), seen, end, partial_at(tile, i) + 4 * tile.value_width)
        for i in range(first, last):
            p, (seen, end) = weights_at(tile, i), cells_seen(tile, i, start, KV_BLOCK)
            to_weights(p, seen, end, partial_at(tile, i) + 4 * tile.value_width)
            hide(p, low, seen & ~15)
            hide(p, (end + 15) & ~15, high)


def tile_steps(reader: PageReader, sizes: PageSizes) -> TileSteps:
    """The steps for pages of a type."""
    load_query, convert_keys, convert_values = reader.load_query, reader.convert_keys, reader.convert_values
    convert_few, values_in_keys = reader.convert_few_values, reader.values_in_keys
    (score_few, add_few), (score_many, add_many) = _define_passes(reader.few), _define_passes(reader.many)
    key_bytes, value_bytes = inline(sizes.key_bytes), inline(sizes.value_bytes)

    @inline
    def load_queries(op: int, batch: int, tile: QueryTile) -> None:
        """Gather the queries, times scale and log2 e, and fill up the last micro-tile with zeros."""
        given, key_dim, buffer = attention_of(op), attention_of(op).key_dim, buffer_at(tile)
        note_ranges(op, batch, tile)
        scale = splat_f32(given.scale * LOG2_E)
        queries = tile.rows * tile.heads
        for i in range(round_up_to_micro_tile(queries)):
            t = tile.t + min(i, queries - 1) // tile.heads
            x = query_source(op, batch, t, tile.h + i % tile.heads)
            for d in range(0, tile.key_width + 16, 16):
                x_part = load_f32x16_part(x + 4 * d, key_dim - d if i < queries else 0)
                store_f32x16(buffer + 4 * d, mul_f32(x_part, scale))
            load_query(buffer, tile.key_width, query_at(tile, i))

    @inline
    def keys_at(op: int, batch: int, t: int, g: int, page: int) -> int:
        given = attention_of(op)
        address = page_address(batch, given.kv_group, batch_row(op, batch, t), page)
        return address + given.page_offset + g * key_bytes(given.key_dim)

    @inline
    def values_at(op: int, batch: int, t: int, g: int, page: int) -> int:
        given = attention_of(op)
        if values_in_keys:
            return keys_at(op, batch, t, g, page)
        return keys_at(op, batch, t, given.kv_heads, page) + g * value_bytes(head_width(given.value_dim))

    @inline
    def score_page(op: int, tile: QueryTile, j: int, keys: int, next_page: int) -> None:
        """Scores of all queries with page j of a KV block."""
        key_dim = attention_of(op).key_dim
        if is_prefill_sized(tile.rows * tile.heads):
            keys = convert_keys(keys, key_dim, buffer_at(tile), next_page)
            score_many(tile, j, keys, key_dim, keys)
        else:
            score_few(tile, j, keys, key_dim, next_page)

    @inline
    def add_page(tile: QueryTile, start: int, j: int, values: int, next_page: int) -> None:
        """Add the weighted values of page j of the KV block whose first cell is `start`."""
        if is_prefill_sized(tile.rows * tile.heads):
            values = convert_values(values, tile.value_width, tile.key_width, buffer_at(tile), next_page)
            add_many(tile, start, j, values, values)
        else:
            values = convert_few(values, tile.value_width, tile.key_width, buffer_at(tile), next_page)
            add_few(tile, start, j, values, next_page)

    @inline
    def attend_block(op: int, batch: int, tile: QueryTile, block: int, next_page: int) -> None:
        """Write the partial results of a KV block; `next_page` is what is read after it."""
        start, before = block * KV_BLOCK, block * KV_BLOCK_PAGES
        first = max(0, tile.first // PAGE - before)
        end = min(KV_BLOCK_PAGES, (tile.end + PAGE - 1) // PAGE - before)
        for j in range(first, end):
            keys = keys_at(op, batch, tile.t, tile.g, before + j)
            if j + 1 < end:
                following = keys_at(op, batch, tile.t, tile.g, before + j + 1)
            else:
                following = values_at(op, batch, tile.t, tile.g, before + first)
            score_page(op, tile, j, keys, following)
        for i in range(round_up_to_micro_tile(tile.rows * tile.heads)):
            clear(partial_at(tile, i), tile.value_width)
        _weigh_block(tile, start, attention_of(op).soft_cap)
        for j in range(first, end):
            values = values_at(op, batch, tile.t, tile.g, before + j)
            following = values_at(op, batch, tile.t, tile.g, before + j + 1) if j + 1 < end else next_page
            add_page(tile, start, j, values, following)

    return TileSteps(load_queries, attend_block, keys_at)
