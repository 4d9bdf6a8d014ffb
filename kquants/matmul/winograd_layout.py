"""The layout of weights for Winograd's inner product (`kquants.formats.winograd`).

Behind a unit's scales are its factors [8][64], as in `kquants.matmul.scaled_layout`, and U of its two blocks [2][64].
"""

from llvmlite import ir

from kquants.activations.super_quantized import MINUS_X
from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import BLOCK_WEIGHTS, HalfBlock, UnitScales
from kquants.formats.winograd import STEPS, UnpackedBlock, both_sides
from kquants.matmul.layouts import ByteLayout, UnitOperands
from kquants.matmul.row_per_lane import four_bytes
from kquants.matmul.scaled_layout import FACTORS_AT, FactorUnpacker
from kquants.matmul.super_blocks import FACTORS, IntegerScales
from kquants.simd import I8_64, I32, at, load, store_vectors, times
from kquants.simd.dot4 import start_dot4
from kquants.simd.dot_accumulator import DotAccumulator

_U_AT = FACTORS_AT + 64 * FACTORS
_INT = ir.IntType(32)


class _WinogradUnpacker(FactorUnpacker):
    def __init__(self, b: ir.IRBuilder, layout: ByteLayout, weights: Value, scales: Value) -> None:
        super().__init__(b, layout, weights, scales)
        self._blocks = [UnpackedBlock(b) for _ in range(layout.fmt.BLOCKS)]

    def vectors(self, half: HalfBlock) -> list[Value]:
        return self._blocks[half.block].with_offsets(half.half, half.u.vectors)

    def store_more(self, scales: UnitScales, place: Value, weights: Value) -> None:
        super().store_more(scales, place, weights)
        blocks = self._blocks[2 * scales.unit : 2 * scales.unit + 2]
        store_vectors(self.b, at(self.b, place, _U_AT), [block.u() for block in blocks])


class WinogradLayout(ByteLayout):
    """Weights as bytes with the offsets that Winograd's inner product adds; of each unit factors and U."""

    unpacker = _WinogradUnpacker
    unit_bytes = _U_AT + 2 * 64

    def add(self, b: ir.IRBuilder, sums: Value, of: UnitOperands) -> Value:
        """The sums of all tiles and rows of x with the products of a unit."""
        scaling, scales = IntegerScales(self.fmt), at(b, of.scales, times(b, of.unit, self.unit_bytes))
        for i in range(scaling.SUB_BLOCKS):
            dots = self._dots(b, of, scales, i)
            for t, row in enumerate(of.x_scales):
                for tile, of_tile in enumerate(dots):
                    place, factors = of.rows * tile + t, at(b, scales, of.tile_bytes * tile + FACTORS_AT)
                    before = b.extract_value(sums, place)
                    added = scaling.add_scaled(b, before, of_tile[t].total(), factors, row, of.unit, i)
                    sums = b.insert_value(sums, added, place)
        return sums

    def _dots(self, b: ir.IRBuilder, of: UnitOperands, scales: Value, i: int) -> list[list[DotAccumulator]]:
        """The products of block i of a unit: of each tile with each row of x."""
        # An int16, and above it what follows: only the lower half of sums counts.
        minus_x = [row.at(MINUS_X + 2 * i, times(b, of.unit, 4)).load(_INT) for row in of.x_scales]
        dots = list[list[DotAccumulator]]()
        for tile in range(of.tiles):
            u = load(b, at(b, scales, of.tile_bytes * tile + _U_AT + 64 * i), I32.vector)
            dots.append([start_dot4(b, b.sub(v, u)) for v in minus_x])
        for step in STEPS:
            fours = [four_bytes(b, of.x, 32 * i + 4 * k) for k in step]
            for tile, of_tile in enumerate(dots):
                block = at(b, of.weights, of.tile_bytes * tile + BLOCK_WEIGHTS * i)
                words = [load(b, at(b, block, 64 * k), I8_64.vector) for k in step]
                for dot, *of_row in zip(of_tile, *fours, strict=True):
                    dot.add(*both_sides(b, words, of_row))
        return dots
