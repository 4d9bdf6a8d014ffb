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

Memory: a tile takes 48 bytes of the list, and each row of the batch may be a tile: a thread's scratch has 48 KB for
this list. A partial result takes 4 · padded value_dim + 64 bytes for each head; `max_partials` of `kquants.kv_layout`
says how many there is room for: 256, or as many as a row has in the longest context. That is 4.5 MB for 32 heads of 128
values, and 9 MB with a context of 131,072 cells.
"""

from typing import NamedTuple

from kquants.attention.micro_tile import DECODE_QUERIES
from kquants.attention.query_tile import attention_of
from kquants.attention.row_tiles import TileSums, list_tiles, record_writer
from kquants.compiler.decorators import inline
from kquants.kv_layout import QUERY_TILE, WORK_LIST
from kquants.layout import PREPARED, SHARE_BYTES, THREADS
from kquants.simd import load_i64, store_i64
from kquants.threadpool.interpreter import header_of, record_at, row_count

assert SHARE_BYTES <= WORK_LIST, "the list lies where each kernel finds its words"


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


_stored_list, _store_list = record_at(WorkList), record_writer(WorkList)


@inline
def work_list(scratch: int) -> WorkList:
    """The list in a thread's scratch."""
    return _stored_list(scratch + WORK_LIST)


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
def _is_too_coarse(op: int, sums: TileSums, parts: int, threads: int, is_split: bool) -> bool:
    """Whether an item is more than a quarter of a thread's share, or the partial results have no room.

    Smaller tiles may have a few partial results more than larger ones, but tiles of one row never do.
    """
    largest = sums.largest_block if is_split else sums.largest_tile
    has_room = not is_split or sums.partials <= attention_of(op).max_partials
    return not has_room or 4 * threads * largest > sums.cost * parts


@inline
def _fewest_heads(sums: TileSums, parts: int, threads: int, is_split: bool) -> int:
    """The fewest heads of a tile that are worth reading the keys and values for."""
    items = (sums.blocks if is_split else sums.tiles) * parts
    return DECODE_QUERIES if items < threads else 2 * DECODE_QUERIES


@inline
def _list_work(op: int, batch: int, scratch: int, threads: int) -> WorkList:
    """Write the tiles, which are as large as they may be, to scratch."""
    given = attention_of(op)
    group = given.heads // given.kv_heads
    rows, heads, is_split = max(1, QUERY_TILE // group), min(group, QUERY_TILE), False
    sums, parts = list_tiles(op, batch, scratch, rows), _tiles_of_heads(op, heads)
    if threads > 1 and 16 * threads * sums.largest_tile > sums.cost * parts:
        is_split = sums.blocks > sums.tiles and sums.partials <= given.max_partials
        while _is_too_coarse(op, sums, parts, threads, is_split):
            if rows > 1:
                rows = (rows + 1) // 2
            elif heads > _fewest_heads(sums, parts, threads, is_split):
                heads = _half_the_heads(heads)
            else:
                break
            sums, parts = list_tiles(op, batch, scratch, rows), _tiles_of_heads(op, heads)
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
