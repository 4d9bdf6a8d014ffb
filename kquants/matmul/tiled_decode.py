"""A few rows of x times a tile of W, which is multiplied straight from W: they wait for the memory, or nearly.

Lanes are 16 rows of W, or, where these come in parts (see `kquants.matmul.parts`), the parts of a few rows, which lie
behind each other in the file. These meet different parts of x: once for each op, a thread puts x into its scratch with
the words of its parts side by side, or a single row, where `kquants.matmul.row_by_row` multiplies it, with their
groups.

A thread at the end of its share of W asks the memory for its share of the next product's weights: they come while it
waits for others, and while it works on what lies between.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kquants.compiler.cpu import decode_rows
from kquants.compiler.decorators import inline
from kquants.formats.shorts import AMX, NARROW
from kquants.formats.winograd import by_winograd
from kquants.layout import SHARE_END, SPREAD_ROWS, THREAD, THREADS, TILE_ROWS, X_GROUP
from kquants.matmul.groups import GROUP, in_groups, of_x, product_of, tile_address
from kquants.matmul.multiply import multiply_tile, sums_of
from kquants.matmul.parts import add_parts, choices, interleave
from kquants.matmul.scaling import scaling_of
from kquants.simd import load_i64
from kquants.threadpool.interpreter import header_of, share_start


@inline
def reads_on(op: int, scratch: int) -> tuple[int, int]:
    """Where the share of W ends, and how far from there this thread reads on: where its share of the next W begins."""
    end, then = tile_address(op, load_i64(scratch + SHARE_END)), product_of(op).next_matmul
    if then == 0:
        return end, 0
    start = share_start(header_of(then).units, load_i64(scratch + THREAD), load_i64(scratch + THREADS))
    return end, tile_address(then, start) - end


def _or_in_parts(parts: int, in_parts: Any, otherwise: Any) -> Any:
    """`call(n, …)`: what is for rows in so many parts, or what is for others."""

    @inline
    def call(n: int, *arguments: int) -> None:
        if n == parts:
            in_parts(*arguments)
        else:
            otherwise(n, *arguments)

    return call


def rows_of(fmt: Any) -> int:
    """Up to so many rows of x are multiplied so.

    Where there are matrix tiles for more, that is `NARROW`, of every format.

    To unpack weights for Winograd's way takes longest: up to eight rows of x do without it. Steps of five and of eight
    rows gained 1.14 and 1.15 times so with Q4_K_M files, of which half the bytes were multiplied so; to compile it
    takes Q4_K a third longer.
    """
    if AMX:
        return NARROW
    return 8 if by_winograd(fmt) else decode_rows()


def decode_of(fmt: Any) -> Any:
    """`decode(parts, rows, op, w, row_bytes, sums, x, place, end, onward)`: the sums of a tile with some rows of x.

    Of up to `rows_of`: three are multiplied as four, five as eight, with what lies behind them. `x` is where it was
    spread, for rows of W in several parts; `place` where the tile lies in the file, w or what it was copied from. For
    what is asked for ahead see `reads_on`. Behind the sums are those of the parts, [parts][rows multiplied][16].
    """
    most, may_be = rows_of(fmt), choices(fmt)
    assert not may_be or most <= SPREAD_ROWS, "scratch has no room for rows of x that are spread out"
    whole = _by_rows(most, partial(_decode_whole, fmt))

    @inline
    def decode(parts: int, *arguments: int) -> None:
        whole(*arguments)

    for parts in may_be:
        in_parts = _by_rows(most, partial(_decode_in_parts, fmt, parts))
        decode = _or_in_parts(parts, in_parts, decode)
    return decode


def _by_rows(most: int, decode_of_most: Callable[[int], Any]) -> Any:
    """`decode(rows, …)` for up to `most` rows: by what multiplies one, or else two at once, or four, …"""
    decode = decode_of_most(most)
    while most > 1:
        most //= 2
        decode = _or_more(most, decode_of_most(most), decode)
    return decode


def _or_more(most: int, few: Any, more: Any) -> Any:
    """`decode(rows, …)`: what is for up to `most` rows, or what is for more."""

    @inline
    def decode(rows: int, *arguments: int) -> None:
        if rows <= most:
            few(rows, *arguments)
        else:
            more(rows, *arguments)

    return decode


def spread_of(fmt: Any) -> Any:
    """`spread(parts, op, rows, to)`: put x where decode finds it, with what its parts meet at once side by side."""

    @inline
    def spread(parts: int, op: int, rows: int, to: int) -> None:
        pass

    for parts in choices(fmt):
        spread = _or_in_parts(parts, _spread_x(fmt, parts), spread)
    return spread


def _decode_whole(fmt: Any, most: int) -> Any:
    """`decode(rows, op, w, row_bytes, sums, x, place, end, onward)`: the sums with whole rows of W, by x of the op."""
    group, may_rest = in_groups(fmt)
    group_bytes, block_bytes = group.BLOCK_BYTES, fmt.BLOCK_BYTES
    multiply_group, multiply_last = multiply_tile(group, most, 1), multiply_tile(fmt, most, 1)
    (zeros, store_sums), x_at = sums_of(most), of_x(fmt)

    @inline
    def decode(
        rows: int, op: int, w: int, row_bytes: int, sums: int, x: int, place: int, end: int, onward: int
    ) -> None:
        n, y, next_tile = product_of(op).columns, zeros(), place + TILE_ROWS * row_bytes
        groups = n // (32 * GROUP)
        for i in range(groups):
            done, (of_group, scales) = i * group_bytes, x_at(op, rows, 0, i * GROUP)
            y = multiply_group(y, w + done, row_bytes, next_tile + TILE_ROWS * done, end, onward, of_group, scales)
        if may_rest:
            for b in range(groups * GROUP, n // 32):
                done, (of_block, scales) = b * block_bytes, x_at(op, rows, 0, b)
                y = multiply_last(y, w + done, row_bytes, next_tile + TILE_ROWS * done, end, onward, of_block, scales)
        store_sums(sums, y)

    return decode


def _spread_x(fmt: Any, parts: int) -> Any:
    """`spread(op, rows, to)`: put x there for so many parts."""
    store, x_bytes = interleave(parts), scaling_of(fmt).X_GROUP_BYTES

    @inline
    def spread(op: int, rows: int, to: int) -> None:
        x, part_bytes = product_of(op).x, product_of(op).columns // X_GROUP // parts * rows * x_bytes
        for k in range(0, part_bytes, 64):
            store(to + parts * k, x + k, part_bytes)

    return spread


def _decode_in_parts(fmt: Any, parts: int, most: int) -> Any:
    """`decode(rows, op, w, row_bytes, sums, x, place, end, onward)`: the sums with rows of W in so many parts."""
    group, _ = in_groups(fmt)
    group_bytes, x_bytes = group.BLOCK_BYTES, parts * scaling_of(fmt).X_GROUP_BYTES
    multiply, (zeros, store_sums), add = multiply_tile(group, most, parts), sums_of(most), add_parts(parts)

    @inline
    def decode(
        rows: int, op: int, w: int, row_bytes: int, sums: int, x: int, place: int, end: int, onward: int
    ) -> None:
        groups, part_bytes, of_parts = product_of(op).columns // X_GROUP // parts, row_bytes // parts, sums + 64 * most
        for k in range(parts):
            tile, y = w + k * TILE_ROWS * part_bytes, zeros()
            next_tile = place + (k + 1) * TILE_ROWS * part_bytes
            for i in range(groups):
                done, to_x = i * group_bytes, x + i * rows * x_bytes
                asked = next_tile + TILE_ROWS * done
                y = multiply(y, tile + done, part_bytes, asked, end, onward, to_x, to_x + X_GROUP * parts)
            store_sums(of_parts + 64 * most * k, y)
        for t in range(rows):
            add(sums + 64 * t, of_parts + 64 * t, 64 * most)

    return decode
