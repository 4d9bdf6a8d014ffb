"""An unpacked super-block of some tiles times a few of many rows of x, unit by unit: the micro-kernel of prefill."""

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import BLOCK_WEIGHTS
from kquants.layout import X_GROUP
from kquants.matmul.layouts import ByteLayout, UnitOperands
from kquants.matmul.scaling import units_of
from kquants.matmul.split_k import XParts
from kquants.simd import F32, I8_64, as_tuple, at, define, load, pointer, store_vectors, times


def _sums_type(layout: ByteLayout) -> Any:
    """Sums of tiles, one after the other, with some rows of x each: as many as registers hold."""
    return types.UniTuple(layout.scaling.SUMS, layout.tuning.prefill_rows)


def multiply_unit(layout: ByteLayout, tiles: int, tile_bytes: int, scales_at: int) -> Any:
    """An operation: add the products of an unpacked unit of some tiles with rows of x to their sums.

    Rows of x times tiles are `Tuning.prefill_rows`. Arguments: sums (a tuple), where the first tile's weights lie (its
    scales `scales_at` bytes on, each next tile's `tile_bytes` on), the super-block's x (each next row's
    `layout.x_bytes` on), what belongs to that, the unit.
    """
    scaling, rows, fmt = layout.scaling, layout.tuning.prefill_rows // tiles, layout.fmt
    nbytes, x_bytes = (scaling.SUB_BLOCKS * layout.WEIGHT_BYTES * n // fmt.SUB_BLOCKS for n in (BLOCK_WEIGHTS, 32))
    sums_type = _sums_type(layout)

    @define(sums_type, sums_type, *[types.int64] * 4)
    def multiply(b: ir.IRBuilder, sums: Value, tile: Value, x: Value, x_scales: Value, unit: Value) -> Value:
        of_x = XParts(b, at(b, x, times(b, unit, x_bytes)))
        of_scales = XParts(b, x_scales)
        operands = UnitOperands(
            tiles=tiles,
            tile_bytes=tile_bytes,
            weights=at(b, tile, times(b, unit, nbytes)),
            scales=at(b, tile, scales_at),
            unit=unit,
            x=[of_x.at(layout.x_bytes * t) for t in range(rows)],
            x_scales=[of_scales.at(scaling.X_GROUP_BYTES * t) for t in range(rows)],
        )
        return layout.add(b, sums, operands)

    return multiply


@define(types.none, *[types.int64] * 2)
def widen_x(b: ir.IRBuilder, x: Value, to: Value) -> None:
    """Store the X_GROUP int8 at x as int16."""
    for i in range(0, X_GROUP, 64):
        v = b.sext(load(b, at(b, x, i), I8_64.vector), ir.VectorType(ir.IntType(16), 64))
        b.store(v, pointer(b, at(b, to, 2 * i), v.type), align=64)


def begin_and_end(layout: ByteLayout, tiles: int, tile_bytes: int) -> tuple[Any, Any]:
    """Two operations on the y of some tiles and rows of x: the sums to begin with, and store y.

    Arguments: (the first tile's y, bytes to the next tile's), and (sums, y, bytes to the next tile's, the first tile's
    scales, what belongs to the rows of x). Each next tile's scales are `tile_bytes` further on.
    """
    scaling, units, rows = layout.scaling, units_of(layout.fmt), layout.tuning.prefill_rows // tiles
    sums_type = _sums_type(layout)

    def place(b: ir.IRBuilder, y: Value, y_bytes: Value, tile: int, t: int) -> Value:
        return at(b, y, 64 * t, times(b, y_bytes, tile))

    @define(sums_type, *[types.int64] * 2)
    def begin(b: ir.IRBuilder, y: Value, y_bytes: Value) -> Value:
        places = [place(b, y, y_bytes, tile, t) for tile in range(tiles) for t in range(rows)]
        return as_tuple(b, [scaling.begin(b, load(b, to_y, F32.vector)) for to_y in places])

    @define(types.none, sums_type, *[types.int64] * 4)
    def end(b: ir.IRBuilder, sums: Value, y: Value, y_bytes: Value, scales: Value, x_scales: Value) -> None:
        for tile in range(tiles):
            of_tile = at(b, scales, tile_bytes * tile)
            of_units = (layout.load_scales(b, of_tile, unit, scaling.SUMS) for unit in range(units))
            own = partial(layout.load_scales, b, of_tile, units, F32)
            places = [place(b, y, y_bytes, tile, t) for t in range(rows)]
            before = (load(b, to_y, F32.vector) for to_y in places)
            totals = [b.extract_value(sums, rows * tile + t) for t in range(rows)]
            x = [XParts(b, x_scales).at(scaling.X_GROUP_BYTES * t) for t in range(rows)]
            for to_y, v in zip(places, scaling.end(b, totals, before, of_units, own, x), strict=True):
                store_vectors(b, to_y, [v])

    return begin, end
