"""Attention over KV pages (their layout is in `kquants.attention.pages`).

The softmax of a span, KV_BLOCK_PAGES pages, is a partial result; a query merges its spans in order, and its result
depends on itself and the cells it sees alone: the same bits, whatever the batch. Up to QUERY_TILE queries go
through the pages together, the heads that share a KV head and the same heads of the next rows, so that each key
and value is read once for all of them; some at a time, in bundles, share registers. Where rows are few, their spans are
shared out among threads, and `attention_merge` merges them afterwards.
"""

from kquants.attention.pages import head_width
from kquants.attention.querytile import (
    SPAN,
    QueryTile,
    attention_of,
    merged_at,
    own_cells,
    part_at,
    part_length,
    tile_work,
    visible_cells,
)
from kquants.attention.readers import READERS
from kquants.attention.softmax import begin, finish, merge
from kquants.compiler.decorators import inline, kernel
from kquants.kv_layout import KV_BLOCK_PAGES, MAX_KV_SPLITS, MAX_PARTIALS, MAX_SPLIT_ROWS, PAGE_SIZES, QUERY_TILE
from kquants.simd import copy, load_i64
from kquants.threadpool.interpreter import batch_of, batch_row, row_count


@inline
def _spans(cells: int) -> int:
    return (cells + SPAN - 1) // SPAN


@inline
def _shared_spans(op: int, batch: int) -> int:
    """Spans of the row that has most, if rows share them out; else 0."""
    rows, most = row_count(op, batch), 0
    if rows <= MAX_SPLIT_ROWS:
        for t in range(rows):
            most = max(most, _spans(visible_cells(op, batch, t)))
    return most if most > 1 and most * rows <= MAX_PARTIALS else 0


@inline
def _out_at(op: int, t: int, h: int) -> int:
    given = attention_of(op)
    return given.out + t * given.out_bytes + 4 * h * given.head_dim


@inline
def _shared_part(op: int, t: int, most: int, s: int, h: int) -> int:
    """Address of the partial result of head h of row t of span s."""
    given = attention_of(op)
    return given.partials + ((t * most + s) * given.heads + h) * part_length(head_width(given.head_dim))


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
def _place(unit: int, shares: int, tiles: int) -> tuple[int, int, int]:
    """Which share of the spans of which tile and KV head a unit is: one head after the other, as its keys and values
    stay in the cache for all rows."""
    return unit % shares, unit // shares % tiles, unit // (shares * tiles)


@inline
def _deliver(op: int, tile: QueryTile, s: int, most: int) -> None:
    """Merge the partial results of span s, or put them where `attention_merge` finds them."""
    width = head_width(attention_of(op).head_dim)
    for i in range(tile.rows * tile.heads):
        if own_cells(tile, i, s * SPAN, SPAN) > 0:
            part = part_at(tile, width, i)
            if most:
                to = _shared_part(op, tile.t + i // tile.heads, most, s, tile.h + i % tile.heads)
                copy(to, part, part_length(width))
            else:
                merge(merged_at(tile, width, i), part, width)


@inline
def _finish(op: int, tile: QueryTile) -> None:
    head_dim = attention_of(op).head_dim
    width = head_width(head_dim)
    for i in range(tile.rows * tile.heads):
        out = _out_at(op, tile.t + i // tile.heads, tile.h + i % tile.heads)
        finish(merged_at(tile, width, i), width, head_dim, out)


def _define(name: str) -> None:
    work = tile_work(READERS[name], PAGE_SIZES[name])
    take_queries, attend_span, keys_at = work.take_queries, work.attend_span, work.keys_at

    @inline
    def begins_at(op: int, batch: int, t: int, g: int, share: int, shares: int) -> int:
        """About where the first keys are that a share of a tile wants, whose first row is t: its last may see more."""
        span = _spans(visible_cells(op, batch, t)) * share // shares
        return keys_at(op, batch, t, g, span * KV_BLOCK_PAGES)

    @inline
    def attend(op: int, batch: int, tile: QueryTile, share: int, shares: int, most: int, ahead: int) -> None:
        """One share of the spans of a tile; `ahead` is what will be wanted after it."""
        width, spans = head_width(attention_of(op).head_dim), _spans(tile.visible + tile.rows - 1)
        first, last = spans * share // shares, spans * (share + 1) // shares
        take_queries(op, batch, tile)
        for i in range(tile.rows * tile.heads):
            begin(merged_at(tile, width, i), width)
        for s in range(first, last):
            more = keys_at(op, batch, tile.t, tile.g, (s + 1) * KV_BLOCK_PAGES) if s + 1 < last else ahead
            attend_span(op, batch, tile, s, more)
            _deliver(op, tile, s, most)
        if not most:
            _finish(op, tile)

    @inline
    def attend_rows(
        op: int, batch: int, t: int, stop: int, g: int, share: int, shares: int, ahead: int, scratch: int
    ) -> None:
        """One share of the spans of the heads of KV head g, in rows t … stop - 1 of any sequences."""
        given, most = attention_of(op), _shared_spans(op, batch)
        group = given.heads // given.kv_heads
        while t < stop:
            rows, visible = _consecutive(op, batch, t, stop), visible_cells(op, batch, t)
            after = begins_at(op, batch, t + rows, g, share, shares) if t + rows < stop else ahead
            for h in range(0, group, QUERY_TILE):
                heads = min(QUERY_TILE, group - h)
                tile = QueryTile(t, rows, visible, g, g * group + h, heads, scratch)
                attend(op, batch, tile, share, shares, most, after)
            t += rows

    @kernel(f"attention_{name}")
    def attention(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Attention; a unit is a share of the spans of a KV head's query heads in a few rows, or no work.

        Arguments: AttentionOp. Units: kv heads · (rows of the op + MAX_KV_SPLITS).
        """
        rows, given = row_count(op, batch), attention_of(op)
        kv_heads = given.kv_heads
        together = max(1, QUERY_TILE // (given.heads // kv_heads))
        tiles, most = (rows + together - 1) // together, _shared_spans(op, batch)
        shares = max(1, min(min(MAX_KV_SPLITS, most), (rows + MAX_KV_SPLITS) // tiles))
        used, units = tiles * kv_heads * shares, kv_heads * (rows + MAX_KV_SPLITS)
        # Spread over all units, of which every thread has an equal share.
        for unit in range(first * used // units, last * used // units):
            share, tile, g = _place(unit, shares, tiles)
            # The last unit of all asks for its own keys: there is no next.
            next_share, next_tile, next_g = _place(min(unit + 1, used - 1), shares, tiles)
            ahead = begins_at(op, batch, next_tile * together, next_g, next_share, shares)
            stop = min((tile + 1) * together, rows)
            attend_rows(op, batch, tile * together, stop, g, share, shares, ahead, scratch)


@kernel("attention_merge")
def attention_merge(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Merge the spans that rows shared out; a unit is the heads of a KV head in a row, or no work.

    Arguments: AttentionOp. Units: kv heads · MAX_SPLIT_ROWS.
    """
    rows, given, most = row_count(op, batch), attention_of(op), _shared_spans(op, batch)
    kv_heads, head_dim = given.kv_heads, given.head_dim
    group, width = given.heads // kv_heads, head_width(head_dim)
    used, units = rows * kv_heads if most else 0, kv_heads * MAX_SPLIT_ROWS
    for unit in range(first * used // units, last * used // units):
        t, g = unit // kv_heads, unit % kv_heads
        for h in range(g * group, (g + 1) * group):
            begin(scratch, width)
            for s in range(_spans(visible_cells(op, batch, t))):
                merge(scratch, _shared_part(op, t, most, s, h), width)
            finish(scratch, width, head_dim, _out_at(op, t, h))


for _name in READERS:
    _define(_name)
