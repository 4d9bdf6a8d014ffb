"""Many rows of x times a strip of tiles of W, which are unpacked for them eight blocks at a time.

That is into scratch that stays in the first-level cache, or nearly (29 KB by `kquants.formats.winograd`, without VNNI
27 to 37 KB, 37 KB by `kquants.formats.shorts`); all rows of x pass by. Where rows of W come in parts (see
`kquants.matmul.parts`), the sums of each are added to those of the parts before it. Scratch holds

    sums       [tiles][rows of x][16]   float32
    earlier    [tiles][rows of x][16]   float32, the sums of earlier parts; room for STRIP tiles of both
    unpacked   [STRIP]                  weights and scales of GROUP blocks, as `kquants.matmul.unpacked` has them
    dots                                those of matrix tiles, or x as int16 for 16 rows of it
"""

from typing import Any

from kquants.compiler.decorators import inline
from kquants.formats.pieces import BLOCK_WEIGHTS, Several
from kquants.formats.shorts import AMX, by_shorts
from kquants.layout import FEW_ROWS, STRIP, TILE_ROWS, UNPACKED_BYTES
from kquants.matmul.amx import configure, release
from kquants.matmul.amx_blocks import multiply_blocks
from kquants.matmul.amx_super_blocks import squares_of
from kquants.matmul.groups import GROUP, in_groups, of_x, product_of
from kquants.matmul.multiply import TILES, TOGETHER, begin_and_end, bytes_of_x, multiply_unit, widen_x
from kquants.matmul.parts import parts_of
from kquants.matmul.scaling import scaling_of, units_of
from kquants.matmul.sums import clear, sum_bytes
from kquants.matmul.unpacked import MOST_WEIGHT_BYTES, UNIT_SCALES, is_widened, store_tile
from kquants.simd import add_f32, load_f32x16, prefetch_lines, store_f32x16

SCALES = GROUP * BLOCK_WEIGHTS * MOST_WEIGHT_BYTES
UNPACKED = SCALES + (GROUP + 1) * UNIT_SCALES
"""Where the scales of an unpacked tile begin, and its bytes: at most GROUP units, and the super-block's."""

assert UNPACKED <= UNPACKED_BYTES, "scratch has no room for an unpacked tile"


ROWS_AT_ONCE = 16
"""Rows of x that pass by one tile, or pair of tiles, and then by the next. (With AVX2 alone, where a strip of tiles
does not fit into the first-level cache, a Zen 4 reads prompts as fast by 128 rows; with AVX-512 up to 6 % slower.)"""

_ROWS_AHEAD = 32
"""So many rows before they are multiplied, rows of x are asked for: those of a
group lie side by side, and behind its last row the next group. (Beside matrix tiles they are not.)

A Zen 4 multiplies 8,192 columns, of which x comes from the third-level cache, 2 to 5 % faster so, 2,048 as fast (16 and
64 rows ahead 2 to 3 %, 8 rows 2 % slower); but by all lines of 16 rows at once it is 1 to 3 % slower. (With AVX2 alone
Q8_0 gains 3 %.)
Other CPUs were not measured.
"""


@inline
def rows_beside(t: int, some: int, rows: int, w_rows: int) -> tuple[int, int]:
    """Which rows of W, from the first to before the last, are asked for beside `some` of `rows` rows of x from t on."""
    return w_rows * t // rows, w_rows * (t + some) // rows


@inline
def end_part(part: int, parts: int, sums: int, earlier: int) -> None:
    """Add the sums of a part, which go on to `earlier`, to those of the parts before it, which begin there."""
    for k in range(0, earlier - sums, 64):
        total = load_f32x16(sums + k)
        if part > 0:
            total = add_f32(load_f32x16(earlier + k), total)
        store_f32x16((sums if part == parts - 1 else earlier) + k, total)
    if part < parts - 1:
        clear(sums, earlier)


def part_of_rows(fmt: Any) -> int:
    """Bytes of rows of x that each tile, or pair of tiles, asks for beside those that share a pass: all do for all."""
    return int(TOGETHER * scaling_of(fmt).X_GROUP_BYTES // STRIP)


def _vector_product(fmt: Any, blocks: int, tiles: int) -> Any:
    """`multiply(rows, tile, x, x_scales, ahead, sums, y_bytes, dots)`: add the products of unpacked tiles with x.

    The sums of each tile are `y_bytes` further on than those of the one before it. If `ahead` is not 0, the part of a
    strip's request for as many rows of x is made from there on.
    """
    group = Several(fmt, blocks) if fmt.BLOCKS == 1 else fmt
    multiply, units = multiply_unit(group, tiles, UNPACKED), units_of(group)
    begin, end = begin_and_end(group, tiles, UNPACKED)
    together, x_bytes, group_bytes = TOGETHER // tiles, bytes_of_x(group), scaling_of(group).X_GROUP_BYTES
    part_lines = -(-part_of_rows(group) // 64)

    @inline
    def multiply_all(
        rows: int, tile: int, x: int, x_scales: int, ahead: int, sums: int, y_bytes: int, dots: int
    ) -> None:
        for t in range(0, rows, together):
            to_x, to_scales, to_y = x + t * x_bytes, x_scales + t * group_bytes, sums + 64 * t
            if ahead != 0:
                prefetch_lines(ahead + t * group_bytes, part_lines, 64)
            y = begin(to_y, y_bytes)
            for unit in range(units):
                y = multiply(y, tile, tile + SCALES, to_x, to_scales, unit)
            end(y, to_y, y_bytes, tile + SCALES, to_scales)

    return multiply_all


def _matrix_product(fmt: Any, blocks: int) -> Any:
    """`multiply` of one tile of W with matrix tiles, by way of `dots`."""
    multiply = multiply_blocks(fmt, blocks, SCALES)

    @inline
    def multiply_all(
        rows: int, tile: int, x: int, x_scales: int, ahead: int, sums: int, y_bytes: int, dots: int
    ) -> None:
        multiply(sums, tile, x, x_scales, dots)

    return multiply_all


def _product(fmt: Any, tiles: int) -> Any:
    """`multiply(count, rows, tile, x, x_scales, ahead, sums, y_bytes, dots)`: the products of `tiles` tiles, as above.

    They are unpacked for `count` blocks: GROUP, or as few as a row may end with.
    """
    may_rest = in_groups(fmt)[1]

    def of_blocks(blocks: int) -> Any:
        return _matrix_product(fmt, blocks) if AMX else _vector_product(fmt, blocks, tiles)

    whole = of_blocks(GROUP)
    rest = of_blocks(fmt.BLOCKS) if may_rest else whole

    @inline
    def multiply(
        count: int, rows: int, tile: int, x: int, x_scales: int, ahead: int, sums: int, y_bytes: int, dots: int
    ) -> None:
        if may_rest and count < GROUP:
            rest(rows, tile, x, x_scales, ahead, sums, y_bytes, dots)
        else:
            whole(rows, tile, x, x_scales, ahead, sums, y_bytes, dots)

    return multiply


def _ask_of(fmt: Any) -> Any:
    """`ask(op, last, rows, t, some, tiles, w, y)`: beside some rows of x, from t on, ask for what is wanted next.

    That is a part of the weights at w, and of y if no blocks follow these. Few rows stay near, and wait for the memory:
    for them `unpack` asks it for enough.
    """
    group, _ = in_groups(fmt)
    w_lines = group.BLOCK_BYTES // 64 + 1  # of a row's group of columns, or one less: the CPU brings that by itself

    @inline
    def ask(op: int, last: int, rows: int, t: int, some: int, tiles: int, w: int, y: int) -> None:
        if rows > FEW_ROWS:
            given, (first, stop) = product_of(op), rows_beside(t, some, rows, TILE_ROWS * tiles)
            for r in range(first, stop):
                prefetch_lines(w + r * given.row_bytes, w_lines, 64)
            if last == given.columns // 32:
                for k in range(tiles):
                    prefetch_lines(y + t * given.y_bytes + 64 * k, some, given.y_bytes)

    return ask


def _products_of(fmt: Any, ask: Any) -> Any:
    """`multiply(op, b, last, rows, tiles, next_w, y, unpacked, sums)`: blocks b … last of all tiles by all rows of x.

    Tiles are unpacked, and rows of x pass by some at a time.
    """
    most, place = 1 if AMX else TILES, of_x(fmt)
    multiply_most = _product(fmt, most)
    multiply_alone = _product(fmt, 1) if most > 1 else multiply_most
    widens, group_bytes, x_bytes = is_widened(fmt), scaling_of(fmt).X_GROUP_BYTES, bytes_of_x(fmt)
    x_part = part_of_rows(fmt)

    @inline
    def multiply(
        op: int, b: int, last: int, rows: int, tiles: int, next_w: int, y: int, unpacked: int, sums: int
    ) -> None:
        dots, y_bytes = unpacked + STRIP * UNPACKED, sum_bytes(rows)
        for t in range(0, rows, ROWS_AT_ONCE):
            some, (x, x_scales) = min(ROWS_AT_ONCE, rows - t), place(op, rows, t, b)
            ask(op, last, rows, t, some, tiles, next_w, y)
            ahead = x + _ROWS_AHEAD * group_bytes if rows > FEW_ROWS else 0
            if widens:
                first = b % GROUP
                for r in range(some):
                    widen_x(x - 32 * first + r * group_bytes, dots + r * x_bytes)
                x = dots + 64 * first
            for k in range(0, tiles, most):
                tile, y_tile = unpacked + k * UNPACKED, sums + k * y_bytes + 64 * t
                if tiles - k >= most:
                    multiply_most(last - b, some, tile, x, x_scales, ahead, y_tile, y_bytes, dots)
                else:
                    multiply_alone(last - b, some, tile, x, x_scales, ahead, y_tile, y_bytes, dots)
                if ahead != 0:
                    ahead += x_part

    return multiply


def prefill_of(fmt: Any) -> Any:
    """`prefill(op, rows, w, row_bytes, tiles, y, sums)`: the sums of `tiles` tiles, at most STRIP, with rows of x.

    Of more than FEW_ROWS rows: beside the products of a group of columns, the weights of the next group are asked for,
    behind the last one those of the next strip, and y, where the sums go afterwards: they come too late else. (A Zen 4
    reads prompts 2 to 3 % faster so.) For rows of x see `_ROWS_AHEAD`.
    """
    blocks, super_bytes, (group, may_rest) = fmt.BLOCKS, fmt.BLOCK_BYTES, in_groups(fmt)
    store_group, store_last = store_tile(group), store_tile(fmt)
    in_parts, set_up = parts_of(fmt), configure(columns=64 if by_shorts(fmt) else 32)
    ask = _ask_of(fmt)
    multiply = squares_of(fmt, SCALES, UNPACKED, ask) if by_shorts(fmt) else _products_of(fmt, ask)

    @inline
    def unpack(w: int, row_bytes: int, ahead: int, tile: int, count: int) -> None:
        if may_rest and count < GROUP:
            store_last(w, row_bytes, ahead, tile, tile + SCALES)
        else:
            store_group(w, row_bytes, ahead, tile, tile + SCALES)

    @inline
    def prefill(op: int, rows: int, w: int, row_bytes: int, tiles: int, y: int, sums: int) -> None:
        tile_bytes, unpacked = TILE_ROWS * row_bytes, sums + 2 * STRIP * sum_bytes(rows)
        if AMX:
            set_up(unpacked)
        count, parts = product_of(op).columns // 32, in_parts(product_of(op).columns, row_bytes)
        b, part, earlier = 0, 0, sums + tiles * sum_bytes(rows)
        clear(sums, earlier)
        while b < count:
            last = b + (GROUP if b + GROUP <= count else blocks)
            done = b // blocks * super_bytes
            for k in range(tiles):
                at = w + k * tile_bytes
                ahead = at + tiles * tile_bytes + TILE_ROWS * done
                unpack(at + done, row_bytes, ahead, unpacked + k * UNPACKED, last - b)
            next_w = w + (last // blocks * super_bytes if last < count else tiles * tile_bytes)
            multiply(op, b, last, rows, tiles, next_w, y, unpacked, sums)
            if parts > 1 and last == count // parts * (part + 1):
                end_part(part, parts, sums, earlier)
                part += 1
            b = last
        if AMX:
            release()

    return prefill
