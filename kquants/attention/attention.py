"""Attention over KV pages (their layout is in `kquants.attention.pages`).

A KV block, KV_BLOCK_PAGES pages, has one partial softmax. A query merges the partial results of its KV blocks in order,
so its result depends on the query and the cells it sees alone: the same bits whatever the batch. Up to QUERY_TILE
queries go through the pages together, those of the heads that share a KV head and of consecutive rows, so that each key
and value is read once for all of them; a few at a time form a micro-tile in registers.

Split-KV, as in flash-decoding: where rows are few, the KV blocks of a row are distributed over up to MAX_KV_SPLITS
units of work, and `attention_merge` merges the partial results afterwards.
"""

from kquants.attention.page_readers import READERS
from kquants.attention.pages import head_width
from kquants.attention.query_tile import (
    KV_BLOCK,
    QueryTile,
    attention_of,
    cells_seen,
    merged_at,
    partial_at,
    partial_length,
    visible_cells,
)
from kquants.attention.softmax import clear, merge, normalize
from kquants.attention.tile_steps import tile_steps
from kquants.compiler.decorators import inline, kernel
from kquants.kv_layout import KV_BLOCK_PAGES, MAX_KV_SPLITS, MAX_PARTIALS, MAX_SPLIT_ROWS, PAGE_SIZES, QUERY_TILE
from kquants.simd import copy, load_i64
from kquants.threadpool.interpreter import batch_of, batch_row, row_count


@inline
def _kv_blocks(cells: int) -> int:
    return (cells + KV_BLOCK - 1) // KV_BLOCK


@inline
def _blocks_if_split(op: int, batch: int) -> int:
    """The most KV blocks of any row, if the op's rows use split-KV; else 0."""
    rows, most = row_count(op, batch), 0
    if rows <= MAX_SPLIT_ROWS:
        for t in range(rows):
            most = max(most, _kv_blocks(visible_cells(op, batch, t)))
    return most if most > 1 and most * rows <= MAX_PARTIALS else 0


@inline
def _out_at(op: int, t: int, h: int) -> int:
    given = attention_of(op)
    return given.out + t * given.out_bytes + 4 * h * given.head_dim


@inline
def _stored_partial_at(op: int, t: int, blocks: int, block: int, h: int) -> int:
    """Address of the partial result of head h of row t over a KV block, where each row has room for `blocks`."""
    given = attention_of(op)
    return given.partials + ((t * blocks + block) * given.heads + h) * partial_length(head_width(given.head_dim))


@inline
def _consecutive(op: int, batch: int, t: int, stop: int) -> int:
    """How many rows from t on, before `stop`, are consecutive tokens of one sequence."""
    tables, first = batch_of(batch).page_tables, batch_row(op, batch, t)
    table, visible, rows = load_i64(tables + 8 * first), visible_cells(op, batch, t), 1
    while (
        t + rows < stop
        and load_i64(tables + 8 * batch_row(op, batch, t + rows)) == table
        and visible_cells(op, batch, t + rows) == visible + rows
    ):
        rows += 1
    return rows


@inline
def _place(unit: int, splits: int, tiles: int) -> tuple[int, int, int]:
    """The split, tile and KV head of a unit: one KV head after the other, as its keys and values then stay in the cache
    for all rows."""
    return unit % splits, unit // splits % tiles, unit // (splits * tiles)


@inline
def _put_partials(op: int, tile: QueryTile, block: int, blocks: int) -> None:
    """Merge the partial results of a KV block, or, with split-KV, store them for `attention_merge`."""
    width = head_width(attention_of(op).head_dim)
    for i in range(tile.rows * tile.heads):
        if cells_seen(tile, i, block * KV_BLOCK, KV_BLOCK) > 0:
            partial = partial_at(tile, width, i)
            if blocks:
                to = _stored_partial_at(op, tile.t + i // tile.heads, blocks, block, tile.h + i % tile.heads)
                copy(to, partial, partial_length(width))
            else:
                merge(merged_at(tile, width, i), partial, width)


@inline
def _write_out(op: int, tile: QueryTile) -> None:
    head_dim = attention_of(op).head_dim
    width = head_width(head_dim)
    for i in range(tile.rows * tile.heads):
        out = _out_at(op, tile.t + i // tile.heads, tile.h + i % tile.heads)
        normalize(merged_at(tile, width, i), width, head_dim, out)


def _define(name: str) -> None:
    steps = tile_steps(READERS[name], PAGE_SIZES[name])
    load_queries, attend_block, keys_at = steps.load_queries, steps.attend_block, steps.keys_at

    @inline
    def first_keys_at(op: int, batch: int, t: int, g: int, split: int, splits: int) -> int:
        """The keys that a split of a tile reads first, by the tile's first row t: to prefetch (later rows may see more
        cells, and then begin elsewhere)."""
        block = _kv_blocks(visible_cells(op, batch, t)) * split // splits
        return keys_at(op, batch, t, g, block * KV_BLOCK_PAGES)

    @inline
    def attend(op: int, batch: int, tile: QueryTile, split: int, splits: int, blocks: int, next_page: int) -> None:
        """One split of a tile's KV blocks; `next_page` is what is read after it."""
        width, tile_blocks = head_width(attention_of(op).head_dim), _kv_blocks(tile.visible + tile.rows - 1)
        first, last = tile_blocks * split // splits, tile_blocks * (split + 1) // splits
        load_queries(op, batch, tile)
        for i in range(tile.rows * tile.heads):
            clear(merged_at(tile, width, i), width)
        for block in range(first, last):
            after = (block + 1) * KV_BLOCK_PAGES
            following = keys_at(op, batch, tile.t, tile.g, after) if block + 1 < last else next_page
            attend_block(op, batch, tile, block, following)
            _put_partials(op, tile, block, blocks)
        if not blocks:
            _write_out(op, tile)

    @inline
    def attend_rows(
        op: int, batch: int, t: int, stop: int, g: int, split: int, splits: int, next_page: int, scratch: int
    ) -> None:
        """One split of the KV blocks of rows t … stop - 1, of any sequences, for the heads of KV head g."""
        given, blocks = attention_of(op), _blocks_if_split(op, batch)
        group = given.heads // given.kv_heads
        while t < stop:
            rows, visible = _consecutive(op, batch, t, stop), visible_cells(op, batch, t)
            following = first_keys_at(op, batch, t + rows, g, split, splits) if t + rows < stop else next_page
            for h in range(0, group, QUERY_TILE):
                heads = min(QUERY_TILE, group - h)
                tile = QueryTile(t, rows, visible, g, g * group + h, heads, scratch)
                attend(op, batch, tile, split, splits, blocks, following)
            t += rows

    @kernel(f"attention_{name}")
    def attention(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Attention; a unit is a split of the KV blocks of some rows for the heads of a KV head, or no work.

        Arguments: AttentionOp. Units: kv heads · (rows of the op + MAX_KV_SPLITS).
        """
        rows, given = row_count(op, batch), attention_of(op)
        kv_heads = given.kv_heads
        tile_rows = max(1, QUERY_TILE // (given.heads // kv_heads))
        tiles, blocks = (rows + tile_rows - 1) // tile_rows, _blocks_if_split(op, batch)
        splits = max(1, min(min(MAX_KV_SPLITS, blocks), (rows + MAX_KV_SPLITS) // tiles))
        used, units = tiles * kv_heads * splits, kv_heads * (rows + MAX_KV_SPLITS)
        # The work is spread over all units, of which every thread has an equal share.
        for unit in range(first * used // units, last * used // units):
            split, tile, g = _place(unit, splits, tiles)
            # The last unit has no next one, and prefetches its own keys.
            next_split, next_tile, next_g = _place(min(unit + 1, used - 1), splits, tiles)
            next_page = first_keys_at(op, batch, next_tile * tile_rows, next_g, next_split, splits)
            stop = min((tile + 1) * tile_rows, rows)
            attend_rows(op, batch, tile * tile_rows, stop, g, split, splits, next_page, scratch)


@kernel("attention_merge")
def attention_merge(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Merge the partial results of split-KV; a unit is the heads of a KV head in a row, or no work.

    Arguments: AttentionOp. Units: kv heads · MAX_SPLIT_ROWS.
    """
    rows, given, blocks = row_count(op, batch), attention_of(op), _blocks_if_split(op, batch)
    kv_heads, head_dim = given.kv_heads, given.head_dim
    group, width = given.heads // kv_heads, head_width(head_dim)
    used, units = rows * kv_heads if blocks else 0, kv_heads * MAX_SPLIT_ROWS
    for unit in range(first * used // units, last * used // units):
        t, g = unit // kv_heads, unit % kv_heads
        for h in range(g * group, (g + 1) * group):
            clear(scratch, width)
            for block in range(_kv_blocks(visible_cells(op, batch, t))):
                merge(scratch, _stored_partial_at(op, t, blocks, block, h), width)
            normalize(scratch, width, head_dim, _out_at(op, t, h))


for _name in READERS:
    _define(_name)
