"""Layouts of weights as int16: where bytes are multiplied by way of int16 anyway, and for AMX tiles."""

from llvmlite import ir

from kquants.formats.int16 import int16_bytes_of
from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import BLOCK_WEIGHTS, HalfBlock, UnitScales, offset_of
from kquants.matmul.layouts import ByteLayout, Unpacker
from kquants.matmul.split_k import XParts
from kquants.matmul.super_blocks import IntegerScales
from kquants.simd import I8_64, I32, at, load, store_vectors
from kquants.simd.dot2 import Dot2
from kquants.simd.dot_accumulator import DotAccumulator

HIGH_AT = 8 * BLOCK_WEIGHTS
"""Bytes from the low bytes of a super-block's int16 to their high bytes, in `AmxInt16Layout`."""


class _WideningUnpacker(Unpacker):
    def vectors(self, half: HalfBlock) -> list[Value]:
        return half.u.widened()


class Int16Layout(ByteLayout):
    """Signed weights as int16, [blocks][16][64], multiplied by x as int16: no magnitudes, no signs to move."""

    WEIGHT_BYTES = 2
    WIDENS_X = True
    unpacker = _WideningUnpacker

    def start(self, b: ir.IRBuilder, x_scales: XParts, unit: Value, i: int) -> DotAccumulator:
        """Sums of products of int16."""
        return Dot2(b, ir.Constant(I32.vector, None))


class _ScalingUnpacker(Unpacker):
    def vectors(self, half: HalfBlock) -> list[Value]:
        return (half.u - offset_of(self.layout.fmt)).vectors

    def store_more(self, scales: UnitScales, place: Value, weights: Value) -> None:
        """The stored weights of the unit times their scales: low bytes in place, high bytes HIGH_AT further on."""
        b, fmt = self.b, self.layout.fmt
        size = BLOCK_WEIGHTS // fmt.SUB_BLOCKS
        of_sub_blocks = IntegerScales(fmt).of_sub_blocks(b, scales.scales.value)
        for i, factors in enumerate(of_sub_blocks, 2 * scales.unit):
            for k in range(size * i, size * (i + 1), 64):
                low, high = int16_bytes_of(b, load(b, at(b, weights, k), I8_64.vector), factors)
                store_vectors(b, at(b, weights, k), [low])
                store_vectors(b, at(b, weights, k + HIGH_AT), [high])


class AmxInt16Layout(ByteLayout):
    """Weights times their scales as int16, for `kquants.matmul.amx_super_blocks`: all low bytes, then all high ones."""

    PLANES = 2
    unpacker = _ScalingUnpacker
