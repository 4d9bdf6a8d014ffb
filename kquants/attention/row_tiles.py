"""Tiles of rows: rows of one sequence whose queries go through the pages together, as listed in a thread's scratch."""

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from kquants.attention.query_tile import end_cell, first_cell
from kquants.compiler.decorators import inline
from kquants.kv_layout import KV_BLOCK, KV_BLOCK_PAGES, PAGE, WORK_LIST, WORK_TILE_BYTES, WORK_TILES
from kquants.layout import MAX_EXPERT_BATCH_ROWS, SLICE_ROWS
from kquants.simd import at, define, load_i32, pointer
from kquants.threadpool.interpreter import batch_of, batch_row, record_at, row_count

assert max(SLICE_ROWS, MAX_EXPERT_BATCH_ROWS) <= WORK_TILES, "the list has no room for a tile of each row"
_TILES = WORK_LIST + 64


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


class TileSums(NamedTuple):
    """Of all tiles of an op's rows."""

    tiles: int
    cost: int
    """The sum of rows · pages."""
    partials: int
    """The sum of rows · KV blocks."""
    largest_tile: int
    """The largest cost of a tile."""
    largest_block: int
    """The largest cost of a KV block of a tile."""
    blocks: int
    """KV blocks of all tiles."""


def record_writer(kind: Any) -> Any:
    """`write(address, *fields)`: write a record of int64 words; the counterpart of `record_at`."""

    @define(types.none, types.int64, *[types.int64] * len(kind._fields))
    def write(b: ir.IRBuilder, address: Any, *fields: Any) -> None:
        for i, word in enumerate(fields):
            b.store(word, pointer(b, at(b, address, 8 * i), word.type), align=8)

    return write


_stored_tile, _store_tile = record_at(RowTile), record_writer(RowTile)


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
def list_tiles(op: int, batch: int, scratch: int, most_rows: int) -> TileSums:
    """Write the tiles of all rows of an op to scratch; a tile has at most `most_rows` rows."""
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
    return TileSums(tiles, cost, partials, largest_tile, largest_block, all_blocks)
