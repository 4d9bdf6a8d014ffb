"""Many rows of x times a strip of tiles of W, which are unpacked for them eight blocks at a time.

That is into scratch that stays in the first-level cache; all rows of x pass by. Where rows of W come in parts (see
`kquants.parts`), the sums of each are added to those of the parts before it. Scratch holds

    sums       [STRIP][rows of x][16]   float32
    parts      [STRIP][rows of x][16]   float32, the sums of earlier parts
    unpacked   [STRIP]                  weights and scales of GROUP blocks, as `kquants.products` has them
    dots                                what `kquants.amx` needs
"""

from typing import Any

import numba as nb

from kquants.amx import AMX, configure, multiply_rows, release
from kquants.decorators import inline
from kquants.groups import GROUP, in_groups, of_x
from kquants.interpreter import argument
from kquants.layout import FEW_ROWS, STRIP, TILE_ROWS
from kquants.parts import parts_of
from kquants.pieces import BLOCK_WEIGHTS, Several
from kquants.products import (
    TILES,
    TOGETHER,
    UNIT_SCALES,
    begin_and_end,
    multiply_unit,
    scaling_of,
    store_tile,
    units_of,
)
from kquants.requests import fetch_lines
from kquants.simd import add_f32, load_f32x16, splat_f32, store_f32x16

SCALES = GROUP * BLOCK_WEIGHTS
UNPACKED = SCALES + (GROUP + 1) * UNIT_SCALES
"""Where the scales of an unpacked tile begin, and its bytes: at most GROUP units, and the super-block's."""


@inline
def sum_bytes(rows: int) -> int:
    """Bytes of the sums of a tile: rows of x are taken up to 16 at a time."""
    return 64 * (rows + 15 & ~15)


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
    may_rest = in_groups(fmt)[1]

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


def prefill_of(fmt: Any) -> Any:
    """`prefill(op, rows, w, row_bytes, tiles, y, sums)`: the sums of `tiles` tiles, at most STRIP, with rows of x.

    y, where the sums go afterwards, is asked for before it is needed, and so are rows of x, 16 ahead: from the
    third-level cache they come too late (products are 3 to 6 % faster on a Zen 4).
    """
    blocks, super_bytes, (group, may_rest) = fmt.BLOCKS, fmt.BLOCK_BYTES, in_groups(fmt)
    store_group, store_last = store_tile(group, signed=AMX), store_tile(fmt, signed=AMX)
    most, in_parts = 1 if AMX else TILES, parts_of(fmt)
    multiply_most = _product(fmt, most)
    multiply_alone = _product(fmt, 1) if most > 1 else multiply_most
    set_up_8, set_up_16, place = configure(fmt, 8), configure(fmt, 16), of_x(fmt)
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
        dots, each = unpacked + STRIP * UNPACKED, sum_bytes(rows)
        for t in range(0, rows, 16):
            some, (x, x_scales) = min(16, rows - t), place(op, rows, t, b)
            for k in range(0, tiles, most):
                to_sums, tile = sums + k * each + 64 * t, unpacked + k * UNPACKED
                met = min(most, tiles - k)
                if rows > FEW_ROWS:  # few rows stay near
                    ask_next(op, x, y + t * argument(op, 7), some, k, met, last)
                if met == most:
                    multiply_most(last - b, some, tile, x, x_scales, to_sums, each, dots)
                else:
                    multiply_alone(last - b, some, tile, x, x_scales, to_sums, each, dots)

    @inline
    def clear(sums: int, size: int) -> None:
        for k in range(0, size, 64):
            store_f32x16(sums + k, splat_f32(nb.float32(0)))

    @inline
    def end_part(sums: int, size: int, part: int, parts: int) -> None:
        """Add the sums of a part to those before it; after the last one all are where those of a whole row would be."""
        for k in range(0, size, 64):
            v = load_f32x16(sums + k)
            total = v if part == 0 else add_f32(load_f32x16(sums + size + k), v)
            store_f32x16(sums + k if part == parts - 1 else sums + size + k, total)
        if part < parts - 1:
            clear(sums, size)

    @inline
    def prefill(op: int, rows: int, w: int, row_bytes: int, tiles: int, y: int, sums: int) -> None:
        size, tile_bytes = tiles * sum_bytes(rows), TILE_ROWS * row_bytes
        unpacked = sums + 2 * STRIP * sum_bytes(rows)
        clear(sums, size)
        if AMX and rows <= 8:
            set_up_8(unpacked)
        elif AMX:
            set_up_16(unpacked)
        b, count, parts = 0, argument(op, 2) // 32, in_parts(argument(op, 2), row_bytes)
        while b < count:
            last = b + (GROUP if b + GROUP <= count else blocks)
            done = b // blocks * super_bytes
            for k in range(tiles):
                at = w + k * tile_bytes
                ahead = at + tiles * tile_bytes + TILE_ROWS * done
                unpack(at + done, row_bytes, ahead, unpacked + k * UNPACKED, last - b)
            multiply(op, b, rows, tiles, y, unpacked, sums, last)
            if parts > 1 and last * parts % count == 0:
                end_part(sums, size, last * parts // count - 1, parts)
            b = last
        if AMX:
            release()

    return prefill
