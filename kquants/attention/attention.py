"""Attention over KV pages (their layout is in `kquants.attention.pages`).

A KV block, KV_BLOCK_PAGES pages, has one partial softmax. A query merges the partial results of its KV blocks in order,
so its result depends on the query and the cells it sees alone: the same bits whatever the batch. Up to QUERY_TILE
queries go through the pages together, those of the heads that share a KV head and of rows of one sequence, so that each
key and value is read once for all of them; a few at a time form a micro-tile in registers.

Pages that no row of a tile sees are never read: those wholly before the windows of its rows, or behind their last
cells. A sink is merged after the last KV block.

`kquants.attention.work_list` says how the work is distributed. With split-KV, as in flash-decoding, the KV blocks of a
row are distributed over several threads; `attention_merge` merges their partial results afterwards.
"""

from kquants.attention.page_readers import LATENT_READERS, READERS, PageReader
from kquants.attention.pages import head_width
from kquants.attention.query_tile import (
    QueryTile,
    attention_of,
    cells_seen,
    end_cell,
    first_cell,
    merged_at,
    partial_at,
    partial_length,
)
from kquants.attention.row_tiles import RowTile, block_at, end_block, first_block, first_page, row_tile
from kquants.attention.softmax import clear, merge, merge_sink, normalize
from kquants.attention.tile_steps import tile_steps
from kquants.attention.work_list import cost_before, prepare, work_list
from kquants.compiler.decorators import inline, kernel
from kquants.kv_layout import KV_BLOCK, KV_BLOCK_PAGES, PAGE_SIZES, WORK_LIST_END, PageSizes
from kquants.simd import copy, load_f32
from kquants.threadpool.interpreter import header_of, row_count


@inline
def _out_at(op: int, batch: int, t: int, h: int) -> int:
    given = attention_of(op)
    if given.has_slots != 0:
        return given.out + (h * row_count(op, batch) + t) * given.out_bytes
    return given.out + t * given.out_bytes + 4 * h * given.value_dim


@inline
def _stored_partial_at(op: int, tile: RowTile, t: int, block: int, h: int) -> int:
    """Address of the partial result of head h of row t, one of a tile's, over a KV block."""
    given = attention_of(op)
    index = tile.partials + (block - first_block(tile)) * tile.rows + t - tile.t
    return given.partials + (index * given.heads + h) * partial_length(head_width(given.value_dim))


@inline
def _finish(op: int, batch: int, merged: int, t: int, h: int) -> None:
    """Write the result of head h of row t, whose KV blocks are merged."""
    given = attention_of(op)
    width = head_width(given.value_dim)
    if given.sinks != 0:
        merge_sink(merged, width, load_f32(given.sinks + 4 * h))
    normalize(merged, width, given.value_dim, _out_at(op, batch, t, h))


@inline
def _put_partials(op: int, tile: QueryTile, rows: RowTile, block: int, is_split: int) -> None:
    """Merge the partial results of a KV block, or, with split-KV, store them for `attention_merge`."""
    for i in range(tile.rows * tile.heads):
        first, end = cells_seen(tile, i, block * KV_BLOCK, KV_BLOCK)
        if first < end:
            if is_split != 0:
                to = _stored_partial_at(op, rows, tile.t + i // tile.heads, block, tile.h + i % tile.heads)
                copy(to, partial_at(tile, i), partial_length(tile.value_width))
            else:
                merge(merged_at(tile, i), partial_at(tile, i), tile.value_width)


@inline
def _query_tile(op: int, tile: RowTile, part: int, heads: int, scratch: int) -> QueryTile:
    """The queries of a tile of rows, of the part-th tile of heads, with at most `heads` of a KV head."""
    given = attention_of(op)
    group = given.heads // given.kv_heads
    parts = (group + heads - 1) // heads
    g, h = part // parts, part % parts * heads
    key_width, value_width = head_width(given.key_dim), head_width(given.value_dim)
    return QueryTile(
        tile.t, tile.rows, tile.first, tile.end, g, g * group + h, min(heads, group - h), key_width, value_width,
        scratch + WORK_LIST_END,
    )  # fmt: skip


def _define(name: str, reader: PageReader, sizes: PageSizes) -> None:
    """Register the kernel for pages that are read by `reader`."""
    steps = tile_steps(reader, sizes)
    load_queries, attend_block, keys_at = steps.load_queries, steps.attend_block, steps.keys_at

    @inline
    def keys_of_block(op: int, batch: int, tile: RowTile, g: int, block: int) -> int:
        """The keys of a KV block that a tile reads first."""
        return keys_at(op, batch, tile.t, g, max(first_page(tile), block * KV_BLOCK_PAGES))

    @inline
    def keys_behind(op: int, batch: int, k: int, part: int, block: int, scratch: int) -> int:
        """The keys to prefetch before an item: those of a KV block of tile k, or else of the next tile.

        The last item has no next one, and prefetches keys of its own.
        """
        work, tile = work_list(scratch), row_tile(scratch, k)
        parts = work.parts // attention_of(op).kv_heads
        if block < end_block(tile):
            return keys_of_block(op, batch, tile, part // parts, block)
        if k + 1 < work.tiles:
            tile = row_tile(scratch, k + 1)
        elif part + 1 < work.parts:
            tile, part = row_tile(scratch, 0), part + 1
        return keys_of_block(op, batch, tile, part // parts, first_block(tile))

    @inline
    def attend(op: int, batch: int, k: int, part: int, first: int, last: int, scratch: int) -> None:
        """KV blocks first … last - 1 of tile k, for a tile of heads."""
        work, rows = work_list(scratch), row_tile(scratch, k)
        tile = _query_tile(op, rows, part, work.heads, scratch)
        load_queries(op, batch, tile)
        for i in range(tile.rows * tile.heads):
            clear(merged_at(tile, i), tile.value_width)
        for block in range(first, last):
            attend_block(op, batch, tile, block, keys_behind(op, batch, k, part, block + 1, scratch))
            _put_partials(op, tile, rows, block, work.is_split)
        if work.is_split == 0:
            for i in range(tile.rows * tile.heads):
                _finish(op, batch, merged_at(tile, i), tile.t + i // tile.heads, tile.h + i % tile.heads)

    @kernel(f"attention_{name}")
    def attention(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Attention. Arguments: AttentionOp. Units: any number, each an equal part of the work."""
        prepare(op, batch, scratch)
        work = work_list(scratch)
        total = work.cost * work.parts
        start, stop = cost_before(op, batch, first, total), cost_before(op, batch, last, total)
        for part in range(start // work.cost, (stop + work.cost - 1) // work.cost):
            for k in range(work.tiles):
                tile = row_tile(scratch, k)
                before = part * work.cost + tile.cost
                begin, end = block_at(tile, work.is_split, start - before), block_at(tile, work.is_split, stop - before)
                if begin < end:
                    attend(op, batch, k, part, begin, end, scratch)


@kernel("attention_merge")
def attention_merge(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Merge the partial results of split-KV. Arguments: AttentionOp. Units: any number, each an equal part of the work.

    An item of work is a head of a row.
    """
    prepare(op, batch, scratch)
    work, given, units, k = work_list(scratch), attention_of(op), header_of(op).units, 0
    items, width = row_count(op, batch) * given.heads * work.is_split, head_width(given.value_dim)
    merged = scratch + WORK_LIST_END
    for item in range(first * items // units, last * items // units):
        t, h = item // given.heads, item % given.heads
        while row_tile(scratch, k).t + row_tile(scratch, k).rows <= t:
            k += 1
        tile = row_tile(scratch, k)
        clear(merged, width)
        for block in range(first_cell(op, batch, t) // KV_BLOCK, (end_cell(op, batch, t) + KV_BLOCK - 1) // KV_BLOCK):
            merge(merged, _stored_partial_at(op, tile, t, block, h), width)
        _finish(op, batch, merged, t, h)


for _name in READERS:
    _define(_name, READERS[_name], PAGE_SIZES[_name])
    _define(f"latent_{_name}", LATENT_READERS[_name], PAGE_SIZES[_name])
