"""Matrix products of quantized formats: tiles of 16 rows of W, a row in each lane.

One expression (see `kquants.blocks` and `kquants.super_blocks`) for any number of rows of x, so that a row of x always
gets the same bits. One or two rows (decode) are multiplied with weights straight from W: it is the memory they wait
for. For more of them (prefill) tiles are unpacked first, eight blocks of a strip of tiles at a time, into scratch that
stays in the first-level cache; all rows of x pass by. Scratch holds

    share      which part of W the chunk is of, and whose scratch it is: see `kquants.interpreter`
    sums       [STRIP][rows of x][16]   float32
    unpacked   [STRIP]                  weights and scales of GROUP blocks, as `kquants.products` has them
    dots                                what `kquants.amx` needs
    last rows                           a tile of W that is not whole, as long as it is

Op arguments are those of `kquants.matmul`, and so is the unit; but x lies in groups, as `kquants.activations` and
`kquants.super_activations` have it, so that bytes per row of x mean nothing here.

In decode, a thread at the end of its share of W asks the memory for its share of the next product's weights: they come
while it waits for others, and while it works on what lies between.
"""

from typing import Any

import numba as nb

from kquants.amx import AMX, DOTS_BYTES, configure, multiply_rows, release
from kquants.decorators import Vector, inline, kernel
from kquants.formats.quantized import QUANTIZED
from kquants.interpreter import argument, fixed_units, row_count, share_start
from kquants.layout import FEW_ROWS, NEXT_PRODUCT, SHARE_BYTES, SHARE_END, STRIP, THREAD, THREADS, TILE_ROWS, X_GROUP
from kquants.pieces import BLOCK_WEIGHTS, Several
from kquants.products import (
    TILES,
    TOGETHER,
    UNIT_SCALES,
    begin_and_end,
    multiply_tile,
    multiply_unit,
    scaling_of,
    store_tile,
    sums_of,
    units_of,
)
from kquants.requests import fetch_lines
from kquants.simd import (
    add_f32,
    copy,
    load_f32x16,
    load_f32x16_part,
    load_i64,
    splat_f32,
    store_f32x16,
    store_f32x16_part,
)

GROUP = 8
"""Blocks that are unpacked together: those of a super-block, or eight that have none."""

SCALES = GROUP * BLOCK_WEIGHTS
UNPACKED = SCALES + (GROUP + 1) * UNIT_SCALES
"""Where the scales of an unpacked tile begin, and its bytes: at most GROUP units, and the super-block's."""


@inline
def _tile_at(op: int, tile: int) -> int:
    """Where a tile of W begins."""
    return argument(op, 0) + tile * TILE_ROWS * argument(op, 3)


@inline
def _sum_bytes(rows: int) -> int:
    """Bytes of the sums of a tile: rows of x are taken up to 16 at a time."""
    return 64 * (rows + 15 & ~15)


@inline
def _put(y: int, v: Vector, count: int, accumulate: int) -> None:
    """Write the first `count` lanes to y, or add them to what is there."""
    if count == TILE_ROWS:
        store_f32x16(y, add_f32(load_f32x16(y), v) if accumulate else v)
    else:
        store_f32x16_part(y, add_f32(load_f32x16_part(y, count), v) if accumulate else v, count)


def _in_groups(fmt: Any) -> tuple[Any, bool]:
    """The format with GROUP blocks at once, and whether a row may end with fewer."""
    return (fmt, False) if fmt.BLOCKS == GROUP else (Several(fmt, GROUP), True)


def _of_x(fmt: Any) -> Any:
    """`of_x(op, rows, t, b)`: where block b of row t of x lies, and what belongs to it or to its super-block."""
    scaling = scaling_of(fmt)
    group_bytes, block_bytes = scaling.X_GROUP_BYTES, scaling.X_BLOCK_BYTES

    @inline
    def of_x(op: int, rows: int, t: int, b: int) -> tuple[int, int]:
        group = argument(op, 4) + (b // GROUP * rows + t) * group_bytes
        return group + 32 * (b % GROUP), group + X_GROUP + b % GROUP * block_bytes

    return of_x


# --- decode --------------------------------------------------------------------------------------------


@inline
def _reads_on(op: int, scratch: int) -> tuple[int, int]:
    """Where the share of W ends, and how far from there this thread reads on: where its share of the next W begins."""
    end, then = _tile_at(op, load_i64(scratch + SHARE_END)), argument(op, NEXT_PRODUCT)
    if then == 0:
        return end, 0
    start = share_start(fixed_units(then), load_i64(scratch + THREAD), load_i64(scratch + THREADS))
    return end, _tile_at(then, start) - end


def _define_decode(fmt: Any, rows: int) -> Any:
    """`decode(op, w, row_bytes, sums, next_tile, end, onward)`: the sums of a tile with `rows` rows of x.

    Of the last three, for what is asked for ahead, see `_reads_on`.
    """
    group, may_rest = _in_groups(fmt)
    group_bytes, block_bytes = group.BLOCK_BYTES, fmt.BLOCK_BYTES
    multiply_group, multiply_last = multiply_tile(group, rows), multiply_tile(fmt, rows)
    (zeros, store_sums), of_x = sums_of(rows), _of_x(fmt)

    @inline
    def decode(op: int, w: int, row_bytes: int, sums: int, next_tile: int, end: int, onward: int) -> None:
        n, y = argument(op, 2), zeros()
        groups = n // (32 * GROUP)
        for i in range(groups):
            done, (x, x_scales) = i * group_bytes, of_x(op, rows, 0, i * GROUP)
            y = multiply_group(y, w + done, row_bytes, next_tile + TILE_ROWS * done, end, onward, x, x_scales)
        if may_rest:
            for b in range(groups * GROUP, n // 32):
                done, (x, x_scales) = b * block_bytes, of_x(op, rows, 0, b)
                y = multiply_last(y, w + done, row_bytes, next_tile + TILE_ROWS * done, end, onward, x, x_scales)
        store_sums(sums, y)

    return decode


# --- prefill -------------------------------------------------------------------------------------------


def _vector_product(fmt: Any, blocks: int, tiles: int) -> Any:
    """`multiply(rows, tile, x, x_scales, sums, sum_bytes, dots)`: add the products of unpacked tiles with rows of x.

    `sum_bytes` is how far the sums of one tile are from those of the next.
    """
    group = Several(fmt, blocks) if fmt.BLOCKS == 1 else fmt
    multiply, units = multiply_unit(group, tiles, UNPACKED), units_of(group)
    begin, end = begin_and_end(group, tiles, UNPACKED)
    together, group_bytes = TOGETHER // tiles, scaling_of(group).X_GROUP_BYTES

    @inline
    def multiply_all(rows: int, tile: int, x: int, x_scales: int, sums: int, sum_bytes: int, dots: int) -> None:
        for t in range(0, rows, together):
            to_x, to_scales = x + t * group_bytes, x_scales + t * group_bytes
            y = begin(sums + 64 * t, sum_bytes)
            for unit in range(units):
                y = multiply(y, tile, tile + SCALES, to_x, to_scales, unit)
            end(y, sums + 64 * t, sum_bytes, tile + SCALES, to_scales)

    return multiply_all


def _matrix_product(fmt: Any, blocks: int) -> Any:
    """`multiply` of one tile of W with matrix tiles: without a next one, and by way of `dots`."""
    multiply_8, multiply_16 = multiply_rows(fmt, 8, blocks), multiply_rows(fmt, 16, blocks)

    @inline
    def multiply_all(rows: int, tile: int, x: int, x_scales: int, sums: int, sum_bytes: int, dots: int) -> None:
        if rows <= 8:
            multiply_8(sums, tile, tile + SCALES, x, x_scales, dots)
        else:
            multiply_16(sums, tile, tile + SCALES, x, x_scales, dots)

    return multiply_all


def _product(fmt: Any, tiles: int) -> Any:
    """`multiply(count, rows, tile, x, x_scales, sums, sum_bytes, dots)`: the products of `tiles` tiles, as above.

    They are unpacked for `count` blocks: GROUP, or as few as a row may end with.
    """
    may_rest = _in_groups(fmt)[1]

    def of_blocks(blocks: int) -> Any:
        return _matrix_product(fmt, blocks) if AMX else _vector_product(fmt, blocks, tiles)

    whole = of_blocks(GROUP)
    rest = of_blocks(fmt.BLOCKS) if may_rest else whole

    @inline
    def multiply(count: int, rows: int, tile: int, x: int, x_scales: int, sums: int, sum_bytes: int, dots: int) -> None:
        if may_rest and count < GROUP:
            rest(rows, tile, x, x_scales, sums, sum_bytes, dots)
        else:
            whole(rows, tile, x, x_scales, sums, sum_bytes, dots)

    return multiply


def _define_prefill(fmt: Any) -> Any:
    """`prefill(op, rows, w, row_bytes, tiles, y, sums)`: the sums of `tiles` tiles, at most STRIP, with rows of x.

    y, where the sums go afterwards, is asked for before it is needed, and so are rows of x, 16 ahead: from the
    third-level cache they come too late (products are 3 to 6 % faster on a Zen 4).
    """
    blocks, super_bytes, (group, may_rest) = fmt.BLOCKS, fmt.BLOCK_BYTES, _in_groups(fmt)
    store_group, store_last = store_tile(group, signed=AMX), store_tile(fmt, signed=AMX)
    most = 1 if AMX else TILES
    multiply_most = _product(fmt, most)
    multiply_alone = _product(fmt, 1) if most > 1 else multiply_most
    set_up_8, set_up_16, of_x = configure(fmt, 8), configure(fmt, 16), _of_x(fmt)
    x_bytes = scaling_of(fmt).X_GROUP_BYTES
    x_lines = 16 * x_bytes // 64 // STRIP

    @inline
    def unpack(w: int, row_bytes: int, ahead: int, tile: int, count: int) -> None:
        if may_rest and count < GROUP:
            store_last(w, row_bytes, ahead, tile, tile + SCALES)
        else:
            store_group(w, row_bytes, ahead, tile, tile + SCALES)

    @inline
    def ask_next(op: int, x: int, y: int, rows: int, k: int, tiles: int, last: int) -> None:
        """Before 16 rows of x meet tiles from k on: ask for a part of the next 16, and if no blocks follow, for y."""
        fetch_lines(x + 16 * x_bytes + 64 * x_lines * k, x_lines * tiles, 64)
        if last == argument(op, 2) // 32:
            for tile in range(k, k + tiles):
                fetch_lines(y + 64 * tile, rows, argument(op, 7))

    @inline
    def multiply(op: int, b: int, rows: int, tiles: int, y: int, unpacked: int, sums: int, last: int) -> None:
        """Unpacked blocks b … last of all tiles by all rows of x: 16 of these, which come from far, at a time."""
        dots, sum_bytes = unpacked + STRIP * UNPACKED, _sum_bytes(rows)
        for t in range(0, rows, 16):
            some, (x, x_scales) = min(16, rows - t), of_x(op, rows, t, b)
            for k in range(0, tiles, most):
                to_sums, tile = sums + k * sum_bytes + 64 * t, unpacked + k * UNPACKED
                met = min(most, tiles - k)
                if rows > FEW_ROWS:  # few rows stay near
                    ask_next(op, x, y + t * argument(op, 7), some, k, met, last)
                if met == most:
                    multiply_most(last - b, some, tile, x, x_scales, to_sums, sum_bytes, dots)
                else:
                    multiply_alone(last - b, some, tile, x, x_scales, to_sums, sum_bytes, dots)

    @inline
    def prefill(op: int, rows: int, w: int, row_bytes: int, tiles: int, y: int, sums: int) -> None:
        unpacked, tile_bytes = sums + STRIP * _sum_bytes(rows), TILE_ROWS * row_bytes
        for k in range(0, tiles * _sum_bytes(rows), 64):
            store_f32x16(sums + k, splat_f32(nb.float32(0)))
        if AMX and rows <= 8:
            set_up_8(unpacked)
        elif AMX:
            set_up_16(unpacked)
        b, count = 0, argument(op, 2) // 32
        while b < count:
            last = b + (GROUP if b + GROUP <= count else blocks)
            done = b // blocks * super_bytes
            for k in range(tiles):
                at = w + k * tile_bytes
                ahead = at + tiles * tile_bytes + TILE_ROWS * done
                unpack(at + done, row_bytes, ahead, unpacked + k * UNPACKED, last - b)
            multiply(op, b, rows, tiles, y, unpacked, sums, last)
            b = last
        if AMX:
            release()

    return prefill


# --- both ----------------------------------------------------------------------------------------------


def _define(name: str, fmt: Any) -> None:
    """Register the product of a format."""
    decode_1, decode_2, prefill = _define_decode(fmt, 1), _define_decode(fmt, 2), _define_prefill(fmt)

    @kernel(f"matmul_{name}")
    def matmul(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        rows, row_bytes = row_count(op, batch), argument(op, 3)
        (end, onward), sums = _reads_on(op, scratch), scratch + SHARE_BYTES + 63 & ~63
        last_rows = sums + STRIP * (_sum_bytes(rows) + UNPACKED) + DOTS_BYTES
        unit = first
        while unit < last:
            start = unit * TILE_ROWS
            left = argument(op, 1) - start
            w, y = _tile_at(op, unit), argument(op, 6) + 4 * start
            # Few rows of x stay near anyway, and the memory gives most when W is read from front to back: two tiles at
            # once make eight rows 5 to 10 % slower on a Zen 5 (but four and sixteen 8 % faster, of Q4_K).
            tiles = min(STRIP if rows > FEW_ROWS else 1, last - unit, left // TILE_ROWS)
            if tiles == 0:
                # A tile is read whole: put the last rows where reading past them does no harm.
                copy(last_rows, w, left * row_bytes)
                w, tiles = last_rows, 1
            if rows == 1:
                decode_1(op, w, row_bytes, sums, _tile_at(op, unit + 1), end, onward)
            elif rows == 2:
                decode_2(op, w, row_bytes, sums, _tile_at(op, unit + 1), end, onward)
            else:
                prefill(op, rows, w, row_bytes, tiles, y, sums)
            for t in range(rows):
                for k in range(tiles):
                    v, at = load_f32x16(sums + k * _sum_bytes(rows) + 64 * t), y + t * argument(op, 7) + 64 * k
                    _put(at, v, min(left - k * TILE_ROWS, TILE_ROWS), argument(op, 8))
            unit += tiles


for _name, _format in QUANTIZED.items():
    _define(_name, _format)
