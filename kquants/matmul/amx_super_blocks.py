"""Formats with super-blocks in matrix tiles, see `kquants.matmul.amx`: int16 times int16 (`kquants.formats.shorts`).

A square is of 16 rows of W and 16 rows of x. While its dot products are made, those of the square before it become
sums: they have passed through memory by then.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kquants.activations.super_quantized import shorts_place
from kquants.compiler.decorators import inline
from kquants.formats.pieces import BLOCK_WEIGHTS, Format
from kquants.formats.quads import Value
from kquants.layout import DOTS_BYTES, SHORTS_BYTES, STRIP, X_GROUP
from kquants.matmul.amx import DOT_BYTES, DOTS, X_ROWS, W, X, add_dots, clear_dots, load_rows, store_dots
from kquants.matmul.groups import GROUP, of_x, product_of
from kquants.matmul.parts import Spread
from kquants.matmul.scaling import units_of
from kquants.matmul.sums import sum_bytes
from kquants.matmul.super_blocks import IntegerScales
from kquants.matmul.unpacked import HIGH_AT, load_scales
from kquants.simd import F32, I32, at, define, load, store_vectors

_LOW, _MIXED, _HIGH = DOTS
"""Dot products of low bytes with low ones, of low with high ones, and of high ones."""

_STEPS = (
    (_LOW, False, False),
    (_MIXED, False, True),
    (_HIGH, True, True),
    (_MIXED, True, False),
)
"""The four products of 64 columns: to which dot products, and whether of the high bytes of x, and of those of W. From
each to the next one side stays loaded."""

_DELAY = 4
_LEFT = X_GROUP // 64 * len(_STEPS) - _DELAY
"""Products before the first sums of the square before, as its dot products are on their way to memory; and the rest of
the products."""

_SQUARE_BYTES = len(DOTS) * DOT_BYTES
"""Bytes of the dot products of a square."""

assert 2 * _SQUARE_BYTES <= DOTS_BYTES, "scratch has no room for the dot products of two squares"


def squares_of(fmt: Format, scales_at: int, tile_bytes: int, ask: Callable[..., None]) -> Any:
    """`multiply(op, b, last, rows, tiles, next_w, y, unpacked, sums)`: see `kquants.matmul.tiled_prefill`.

    Unpacked tiles are `tile_bytes` long, their scales lie `scales_at` bytes on.
    """
    place, (first, next_one, last_one) = of_x(fmt), (_first(), _next(fmt), _last(fmt))

    @inline
    def multiply(
        op: int, b: int, last: int, rows: int, tiles: int, next_w: int, y: int, unpacked: int, sums: int
    ) -> None:
        y_bytes, dots = sum_bytes(rows), unpacked + STRIP * tile_bytes
        dots_before, scales_before, x_before, y_before = dots + _SQUARE_BYTES, 0, 0, 0
        for t in range(0, rows, X_ROWS):
            _, x_scales = place(op, rows, t, b)
            x = product_of(op).x + shorts_place(product_of(op).columns, rows, b // GROUP * rows + t)
            ask(op, last, rows, t, min(X_ROWS, rows - t), tiles, next_w, y)
            for k in range(tiles):
                tile = unpacked + k * tile_bytes
                if t + k == 0:
                    first(tile, x, dots)
                else:
                    next_one(tile, x, dots, y_before, scales_before, x_before, dots_before)
                dots, dots_before = dots_before, dots
                scales_before, x_before, y_before = tile + scales_at, x_scales, sums + k * y_bytes + 64 * t
        last_one(y_before, scales_before, x_before, dots_before)

    return multiply


def _first() -> Any:
    """An operation: make the dot products of a square, given its unpacked weights, int16 of x, and where to store."""

    @define(types.none, *[types.int64] * 3)
    def of_first(b: ir.IRBuilder, weights: Value, x: Value, to: Value) -> None:
        for _ in _multiply(b, weights, x, to):
            pass

    return of_first


def _last(fmt: Format) -> Any:
    """An operation: add a square to its sums.

    Arguments: address of the sums, scales, what belongs to the super-block of x, and the dot products.
    """

    @define(types.none, *[types.int64] * 4)
    def of_last(b: ir.IRBuilder, sums: Value, scales: Value, x_scales: Value, dots: Value) -> None:
        for _ in _add(b, fmt, sums, scales, x_scales, dots):
            pass

    return of_last


def _next(fmt: Format) -> Any:
    """An operation: both, the first of a square, the last of the one before it."""

    @define(types.none, *[types.int64] * 7)
    def of_next(b: ir.IRBuilder, *arguments: Value) -> None:
        adding = _add(b, fmt, *arguments[3:])
        for i, _ in enumerate(_multiply(b, *arguments[:3]), -_DELAY):
            for _ in range(X_ROWS * i // _LEFT, X_ROWS * (i + 1) // _LEFT) if i >= 0 else ():
                next(adding)
        for _ in adding:
            pass

    return of_next


def _multiply(b: ir.IRBuilder, weights: Value, x: Value, to: Value) -> Iterator[None]:
    """Make dot products and store them, product by product."""
    for register in DOTS:
        clear_dots(b, register)
    for column in range(0, X_GROUP, 64):
        x_loaded = w_loaded = None
        for register, x_high, w_high in _STEPS:
            if x_high is not x_loaded:
                load_rows(b, X, at(b, x, column + X_GROUP * x_high), SHORTS_BYTES)
            if w_high is not w_loaded:
                load_rows(b, W, at(b, weights, BLOCK_WEIGHTS // 32 * column + HIGH_AT * w_high))
            x_loaded, w_loaded = x_high, w_high
            add_dots(b, register, x_signed=x_high, w_signed=w_high)
            yield
    for i, register in enumerate(DOTS):
        store_dots(b, register, at(b, to, DOT_BYTES * i))


def _add(b: ir.IRBuilder, fmt: Format, sums: Value, scales: Value, x_scales: Value, dots: Value) -> Iterator[None]:
    """Add the super-block to the sums, row by row of x."""
    scaling, units = IntegerScales(fmt), units_of(fmt)
    of_rows = [Spread(b, at(b, x_scales, scaling.X_GROUP_BYTES * t)) for t in range(X_ROWS)]
    y = [at(b, sums, 64 * t) for t in range(X_ROWS)]
    totals = (_total(b, at(b, dots, 64 * t)) for t in range(X_ROWS))
    before = (load(b, to_y, F32.vector) for to_y in y)
    of_units = (load_scales(b, fmt, scales, unit, I32) for unit in range(units))
    whole = partial(load_scales, b, fmt, scales, units, F32)
    for to_y, v in zip(y, scaling.end(b, totals, before, of_units, whole, of_rows), strict=True):
        store_vectors(b, to_y, [v])
        yield


def _total(b: ir.IRBuilder, dots: Value) -> Value:
    """A of a row of x, as `kquants.matmul.super_blocks` has it."""
    low, mixed, high = (load(b, at(b, dots, DOT_BYTES * i), I32.vector) for i in range(len(DOTS)))
    mixed, high = (b.shl(v, ir.Constant(v.type, [bits] * v.type.count)) for v, bits in ((mixed, 8), (high, 16)))
    return b.add(low, b.add(mixed, high))
