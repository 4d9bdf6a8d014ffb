"""Formats with super-blocks in AMX tiles, see `kquants.matmul.amx`: int16 times int16 (`kquants.formats.int16`).

A square has 16 rows of W and 16 rows of x. While its dot products are made, those of the square before it are added to
its sums: they have passed through memory by then.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kquants.activations.super_quantized import int16_place
from kquants.compiler.decorators import inline
from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import BLOCK_WEIGHTS
from kquants.layout import DOTS_BYTES, INT16_GROUP_BYTES, STRIP, X_GROUP
from kquants.matmul.amx import DOT_BYTES, DOTS, X_ROWS, W, X, add_dots, clear_dots, load_rows, store_dots
from kquants.matmul.int16_layouts import HIGH_AT
from kquants.matmul.layouts import ByteLayout
from kquants.matmul.products import Product
from kquants.matmul.quantized_x import group_index, x_address
from kquants.matmul.scaling import units_of
from kquants.matmul.split_k import XParts
from kquants.matmul.strategy import Strategy
from kquants.matmul.sums import sum_bytes
from kquants.simd import F32, I32, at, define, load, store_vectors

_LOW, _MIXED, _HIGH = DOTS
"""Dot products of low bytes with low ones, of low with high ones, and of high ones."""

_STEPS = (
    (_LOW, False, False),
    (_MIXED, False, True),
    (_HIGH, True, True),
    (_MIXED, True, False),
)
"""The four products of 64 columns: (dot products to add to, high bytes of x, high bytes of W). From each to the next,
one operand stays loaded."""

_DELAY = 4
_LEFT = X_GROUP // 64 * len(_STEPS) - _DELAY
"""Products before the sums of the previous square begin, whose dot products are on their way to memory until then; and
the rest of the products."""

_SQUARE_BYTES = len(DOTS) * DOT_BYTES
"""Bytes of the dot products of a square."""

assert 2 * _SQUARE_BYTES <= DOTS_BYTES, "scratch has no room for the dot products of two squares"


def multiply_squares(strategy: Strategy, prefetch: Callable[..., None]) -> Any:
    """`multiply(product, b, last, tiles, next_w, y, unpacked, sums)`: see `kquants.matmul.prefill_rows`."""
    layout = strategy.layout(strategy.fmt, strategy.tuning)
    place, scales_at, tile_bytes = x_address(strategy.scaling), layout.scales_at, layout.tile_bytes
    first, next_one, last_one = _first(), _next(layout), _last(layout)

    @inline
    def multiply(
        product: Product, b: int, last: int, tiles: int, next_w: int, y: int, unpacked: int, sums: int
    ) -> None:
        rows = product.rows
        y_bytes, dots = sum_bytes(rows), unpacked + STRIP * tile_bytes
        dots_before, scales_before, x_before, y_before = dots + _SQUARE_BYTES, 0, 0, 0
        for t in range(0, rows, X_ROWS):
            _, x_scales = place(product, t, b)
            x = product.x + int16_place(product.columns, product.x_rows, group_index(product, t, b))
            prefetch(product, last, t, min(X_ROWS, rows - t), tiles, next_w, y)
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


def _last(layout: ByteLayout) -> Any:
    """An operation: add a square to its sums.

    Arguments: address of the sums, scales, what belongs to the super-block of x, and the dot products.
    """

    @define(types.none, *[types.int64] * 4)
    def of_last(b: ir.IRBuilder, sums: Value, scales: Value, x_scales: Value, dots: Value) -> None:
        for _ in _add(b, layout, sums, scales, x_scales, dots):
            pass

    return of_last


def _next(layout: ByteLayout) -> Any:
    """An operation: both, the first of a square, the last of the one before it."""

    @define(types.none, *[types.int64] * 7)
    def of_next(b: ir.IRBuilder, *arguments: Value) -> None:
        adding = _add(b, layout, *arguments[3:])
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
                load_rows(b, X, at(b, x, column + X_GROUP * x_high), INT16_GROUP_BYTES)
            if w_high is not w_loaded:
                load_rows(b, W, at(b, weights, BLOCK_WEIGHTS // 32 * column + HIGH_AT * w_high))
            x_loaded, w_loaded = x_high, w_high
            add_dots(b, register, x_signed=x_high, w_signed=w_high)
            yield
    for i, register in enumerate(DOTS):
        store_dots(b, register, at(b, to, DOT_BYTES * i))


def _add(
    b: ir.IRBuilder, layout: ByteLayout, sums: Value, scales: Value, x_scales: Value, dots: Value
) -> Iterator[None]:
    """Add the super-block to the sums, row by row of x."""
    scaling, units = layout.scaling, units_of(layout.fmt)
    of_rows = [XParts(b, at(b, x_scales, scaling.X_GROUP_BYTES * t)) for t in range(X_ROWS)]
    y = [at(b, sums, 64 * t) for t in range(X_ROWS)]
    totals = (_total(b, at(b, dots, 64 * t)) for t in range(X_ROWS))
    before = (load(b, to_y, F32.vector) for to_y in y)
    of_units = (layout.load_scales(b, scales, unit, I32) for unit in range(units))
    whole = partial(layout.load_scales, b, scales, units, F32)
    for to_y, v in zip(y, scaling.end(b, totals, before, of_units, whole, of_rows), strict=True):
        store_vectors(b, to_y, [v])
        yield


def _total(b: ir.IRBuilder, dots: Value) -> Value:
    """A of a row of x, as `kquants.matmul.super_blocks` has it."""
    low, mixed, high = (load(b, at(b, dots, DOT_BYTES * i), I32.vector) for i in range(len(DOTS)))
    mixed, high = (b.shl(v, ir.Constant(v.type, [bits] * v.type.count)) for v, bits in ((mixed, 8), (high, 16)))
    return b.add(low, b.add(mixed, high))
