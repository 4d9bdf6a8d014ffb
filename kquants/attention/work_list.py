"""The list of what an attention op has to do in a batch: tiles of rows, cut so that all threads have an equal share.

Every thread makes the list when it begins an op, in its scratch (`prepare`), and finds it there at its next chunk:

    int64[8]         the fields of WorkList
    int64[tiles][6]  the fields of RowTile

An item of work is a tile of rows for the heads of a KV head, or, with split-KV, one KV block of it. Items are in order
of KV head, tile, block, so that the keys and values of a KV head stay in the cache for all rows. Each costs as many
pages as its rows look at, rows · pages. A unit of the op is an equal part of the cost of all items: it does the items
that begin in its part. Shares are therefore even by cells, not by rows, and consist of whole items.

Items are made small enough: no item is more than a quarter of a thread's share where that is possible, so that the
threads end at about the same time, also where some are slower.

1. Tiles of QUERY_TILE queries, if even a sixteenth of a thread's share is larger than they are: prompts.
2. Else the KV blocks of all rows are items of their own (split-KV), if there is room for their partial results, of
   which a row has one for each KV block that it sees: decode, and drafts at depth. `attention_merge` merges them.
3. Else, or if the items of step 1 or 2 are too large, tiles have half the rows, and so on. Then the heads of a KV head
   are taken apart: as each tile reads the keys and values anew, eight heads and fewer only where there are fewer items
   than threads.

With one thread, tiles are as large as they can be, and there is no split-KV. All ways give the same bits.

Memory: the list takes 12 KB of each thread's scratch. A partial result takes 4 · padded value_dim + 64 bytes for each
head; `max_partials` of `kquants.kv_layout` says how many there is room for: 256, or as many as a row has in the longest
context. That is 4.5 MB for 32 heads of 128 values, and 9 MB with a context of 131,072 cells.
"""

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from kquants.attention.micro_tile import DECODE_QUERIES
from kquants.attention.query_tile import attention_of, end_cell, first_cell
from kquants.compiler.decorators import inline
from kquants.kv_layout import KV_BLOCK, KV_BLOCK_PAGES, PAGE, QUERY_TILE, WORK_LIST, WORK_TILE_BYTES, WORK_TILES
from kquants.layout import MAX_BATCH_ROWS, PREPARED, SHARE_BYTES, THREADS
from kquants.simd import at, define, load_i32, load_i64, pointer, store_i64
from kquants.threadpool.interpreter import batch_of, batch_row, header_of, record_at, row_count

assert SHARE_BYTES <= WORK_LIST, "the list lies where each kernel finds its words"
assert MAX_BATCH_ROWS <= WORK_TILES, "the list has no room for a tile of each row"
_TILES = WORK_LIST + 64


class WorkList(NamedTuple):
    """What an op has to do. Costs are rows · pages."""

    tiles: int
    """Tiles of rows."""
    heads: int
    """Heads of a tile; the heads of a KV head are those of one or more tiles."""
    is_split: int
    """1: split-KV."""
    cost: int
    """Cost of all tiles of rows, for the heads of one tile."""
    parts: int
    """Tiles of heads: KV heads · those of a KV head."""


class RowTile(NamedTuple):
    """Rows t … t + rows - 1 of an op, all of one sequence, which see some of the cells first … end - 1."""

    t: int
    rows: int
    first: int
    end: int
    cost: int
    """Cost of the tiles before it."""
    partials: int
    """Partial results of each head of the tiles before it: rows · KV blocks."""


class _Sums(NamedTuple):
    tiles: int
    cost: int
    partials: int
    largest_tile: int
    largest_block: int
    blocks: int


def _writer(kind: Any) -> Any:
    """`write(address, *fields)`, the counterpart of `record_at`."""

    @define(types.none, types.int64, *[types.int64] * len(kind._fields))
    def write(b: ir.IRBuilder, address: Any, *fields: Any) -> None:
        for i, word in enumerate(fields):
            b.store(word, pointer(b, at(b, address, 8 * i), word.type), align=8)

    return write


_stored_list, _stored_tile = record_at(WorkList), record_at(RowTile)
_store_list, _store_tile = _writer(WorkList), _writer(RowTile)


@inline
def work_list(scratch: int) -> WorkList:
    """The list in a thread's scratch."""
    return _stored_list(scratch + WORK_LIST)


@inline
def row_tile(scratch: int, k: int) -> RowTile:
    """Tile k of the list."""
    return _stored_tile(scratch + _TILES + WORK_TILE_BYTES * k)


@inline
def first_page(tile: RowTile) -> int:
    """The first page of which the tile's rows see cells."""
    return tile.first // PAGE


@inline
def end_page(tile: RowTile) -> int:
    """The end of the pages of which the tile's rows see cells."""
    return (tile.end + PAGE - 1) // PAGE


@inline
def first_block(tile: RowTile) -> int:
    """The first KV block of which the tile's rows see cells."""
    return tile.first // KV_BLOCK


@inline
def end_block(tile: RowTile) -> int:
    """The end of the KV blocks of which the tile's rows see cells."""
    return (tile.end + KV_BLOCK - 1) // KV_BLOCK


@inline
def _segment_of(batch: int, row: int, near: int) -> int:
    """The segment of a row of the batch, searched from segment `near` on."""
    segment_rows, s = batch_of(batch).segment_rows, near
    if load_i32(segment_rows + 4 * s) > row:
        s = 0
    while load_i32(segment_rows + 4 * (s + 1)) <= row:
        s += 1
    return s


@inline
def _tile_from(op: int, batch: int, t: int, segment: int, most_rows: int) -> tuple[int, int, int]:
    """The tile that begins with row t, of a segment: how many rows it has, and the range of the cells that they see.

    Its rows are in the order of the batch, and the cells of each touch those of the rows before it.
    """
    row, first, end = batch_row(op, batch, t), first_cell(op, batch, t), end_cell(op, batch, t)
    stop = load_i32(batch_of(batch).segment_rows + 4 * (segment + 1))
    rows, most = 1, min(most_rows, row_count(op, batch) - t)
    while rows < most:
        following = batch_row(op, batch, t + rows)
        low, high = first_cell(op, batch, t + rows), end_cell(op, batch, t + rows)
        if following < row or following >= stop or low > end or high < first:
            break
        first, end, rows = min(first, low), max(end, high), rows + 1
    return rows, first, end


@inline
def _list_tiles(op: int, batch: int, scratch: int, most_rows: int) -> _Sums:
    """Write the tiles to scratch."""
    t, segment, tiles, cost, partials, largest_tile, largest_block, all_blocks = 0, 0, 0, 0, 0, 0, 0, 0
    while t < row_count(op, batch):
        segment = _segment_of(batch, batch_row(op, batch, t), segment)
        rows, first, end = _tile_from(op, batch, t, segment, most_rows)
        _store_tile(scratch + _TILES + WORK_TILE_BYTES * tiles, t, rows, first, end, cost, partials)
        tile = row_tile(scratch, tiles)
        pages, blocks = end_page(tile) - first_page(tile), end_block(tile) - first_block(tile)
        largest_tile = max(largest_tile, rows * pages)
        largest_block = max(largest_block, rows * min(pages, KV_BLOCK_PAGES))
        t, tiles, all_blocks = t + rows, tiles + 1, all_blocks + blocks
        cost, partials = cost + rows * pages, partials + rows * blocks
    return _Sums(tiles, cost, partials, largest_tile, largest_block, all_blocks)


@inline
def _half_the_heads(heads: int) -> int:
    """Half of the heads of a tile, in whole micro-tiles."""
    return ((heads + 1) // 2 + DECODE_QUERIES - 1) // DECODE_QUERIES * DECODE_QUERIES


@inline
def _tiles_of_heads(op: int, heads: int) -> int:
    """Tiles of all heads, with at most `heads` of a KV head each."""
    given = attention_of(op)
    return given.kv_heads * ((given.heads // given.kv_heads + heads - 1) // heads)


@inline
def _list_work(op: int, batch: int, scratch: int, threads: int) -> WorkList:
    """Write the tiles, which are as large as they may be, to scratch."""
    given = attention_of(op)
    group = given.heads // given.kv_heads
    rows, heads, is_split = max(1, QUERY_TILE // group), min(group, QUERY_TILE), False
    sums, parts = _list_tiles(op, batch, scratch, rows), _tiles_of_heads(op, heads)
    if threads > 1 and 16 * threads * sums.largest_tile > sums.cost * parts:
        is_split = sums.blocks > sums.tiles and sums.partials <= given.max_partials
        while True:
            largest, items = (sums.largest_block, sums.blocks) if is_split else (sums.largest_tile, sums.tiles)
            # Smaller tiles may need a few partial results more, but those of one row never do.
            has_room = not is_split or sums.partials <= given.max_partials
            if has_room and 4 * threads * largest <= sums.cost * parts:
                break
            if rows > 1:
                rows = (rows + 1) // 2
            elif heads > 2 * DECODE_QUERIES or (heads > DECODE_QUERIES and items * parts < threads):
                heads = _half_the_heads(heads)
            else:
                break
            sums, parts = _list_tiles(op, batch, scratch, rows), _tiles_of_heads(op, heads)
    return WorkList(sums.tiles, heads, int(is_split), sums.cost, parts)


@inline
def prepare(op: int, batch: int, scratch: int) -> None:
    """Make the list of an op's work, if this is the thread's first chunk of it."""
    if load_i64(scratch + PREPARED) == 0:
        work = _list_work(op, batch, scratch, load_i64(scratch + THREADS))
        _store_list(scratch + WORK_LIST, work.tiles, work.heads, work.is_split, work.cost, work.parts)
        store_i64(scratch + PREPARED, 1)


@inline
def cost_before(op: int, batch: int, unit: int, total: int) -> int:
    """The cost of the items before a unit's own, of `total`: its items begin there or behind it."""
    units = header_of(op).units + header_of(op).units_per_row * row_count(op, batch)
    return (unit * total + units - 1) // units


@inline
def block_at(tile: RowTile, is_split: int, cost: int) -> int:
    """The first KV block of a tile whose item begins at `cost` or behind it; `cost` counts from the tile's first item.

    Without split-KV, all KV blocks are one item.
    """
    if cost <= 0:
        return first_block(tile)
    if is_split == 0:
        return end_block(tile)
    pages = first_page(tile) + (cost + tile.rows - 1) // tile.rows
    return min(end_block(tile), (pages + KV_BLOCK_PAGES - 1) // KV_BLOCK_PAGES)
