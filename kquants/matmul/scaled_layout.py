"""The layout whose sums are scaled sub-block by sub-block while they are widened from int16.

For lowerings whose products of bytes pass through int16, of formats with integer scales: behind a unit's scales are
its factors [8][64], those of `IntegerScales.factors`.
"""

from llvmlite import ir

from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import BLOCK_WEIGHTS, UnitScales
from kquants.matmul.layouts import ByteLayout, UnitOperands, Unpacker
from kquants.matmul.row_per_lane import add_products, four_bytes
from kquants.matmul.super_blocks import FACTORS, IntegerScales
from kquants.simd import I8_64, as_tuple, at, load, of_tuple, store_vectors, times

FACTORS_AT = 2 * 64
"""Bytes from a unit's scales to its factors."""


class FactorUnpacker(Unpacker):
    """Stores factors behind the scales of each unit."""

    def store_more(self, scales: UnitScales, place: Value, weights: Value) -> None:
        """The factors."""
        factors = IntegerScales(self.layout.fmt).factors(self.b, scales.scales.value)
        store_vectors(self.b, at(self.b, place, FACTORS_AT), factors)


class ScaledLayout(ByteLayout):
    """Weights as bytes, and for each unit the factors by which its sums are multiplied. One tile at a time."""

    unpacker = FactorUnpacker
    unit_bytes = FACTORS_AT + 64 * FACTORS

    def add(self, b: ir.IRBuilder, sums: Value, of: UnitOperands) -> Value:
        """The sums of a tile with the products of a unit, which come to them scaled."""
        assert of.tiles == 1
        scaling, size = IntegerScales(self.fmt), BLOCK_WEIGHTS // self.fmt.SUB_BLOCKS
        factors = at(b, of.scales, FACTORS_AT, times(b, of.unit, self.unit_bytes))
        for i in range(scaling.SUB_BLOCKS):
            before = zip(of_tuple(b, sums), of.x_scales, strict=True)
            dots = [scaling.start_scaled(b, y, factors, row, of.unit, i) for y, row in before]
            for k in range(size * i, size * (i + 1), 64):
                add_products(dots, load(b, at(b, of.weights, k), I8_64.vector), four_bytes(b, of.x, k // 16))
            sums = as_tuple(b, [dot.total() for dot in dots])
        return sums
