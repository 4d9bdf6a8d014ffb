"""Formats with float scales: every block of 32 weights has one, and some a float minimum, or one for each half.

Such a format is w = d · (u - offset) + m: unsigned bytes u, one offset for the format, float32 d and m of a block; it
has an offset or m, not both. For each block of a row, or of a part of one (see `kquants.matmul.split_k`), in order of
k, with d_x and q_x of `kquants.activations.quantized`:

    y = fma(float(Σ (u - offset) · q_x), d · d_x, y),  then where there is m  y = fma(m, d_x · Σ q_x, y)

Where each half of a block has a scale, d_0 and d_1, and s_0 and s_1 are the sums Σ (u - offset) · q_x of the halves:

    y = fma(fma(float(s_1), d_1, float(s_0) · d_0), d_x, y)
"""

from collections.abc import Callable, Iterable

from llvmlite import ir

from kquants.activations.quantized import D_SUM, HALF_SUM_FACTOR, MINUS_HALF_SUM, MINUS_SUM, SUM_FACTOR
from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import Format, Values, is_signed, offset_of
from kquants.layout import BLOCK_GROUP_BYTES, X_BLOCK_BYTES
from kquants.matmul.split_k import XParts
from kquants.simd import F32, I32, fma, times
from kquants.simd.dot4 import start_dot4
from kquants.simd.dot_accumulator import DotAccumulator

_FLOAT, _INT = ir.FloatType(), ir.IntType(32)


class FloatScales:
    """How rows of x add up block by block; see `kquants.matmul.scaling.Scaling`."""

    SUMS, X_GROUP_BYTES, X_BLOCK_BYTES = F32, BLOCK_GROUP_BYTES, X_BLOCK_BYTES

    def __init__(self, fmt: Format) -> None:
        self._fmt, self.SUB_BLOCKS = fmt, fmt.SUB_BLOCKS

    def begin(self, b: ir.IRBuilder, y: Value) -> Value:
        """The sums are y itself."""
        return y

    def start(self, b: ir.IRBuilder, x: XParts, unit: Value | int, sub_block: int, up: int = 0) -> DotAccumulator:
        """The sums before any product: -offset · 2^up · Σ q_x."""
        return start_dot4(b, self.minus_offset(b, x, unit, sub_block, up), self._fmt.BITS, is_signed(self._fmt))

    def minus_offset(self, b: ir.IRBuilder, x: XParts, unit: Value | int, sub_block: int, up: int = 0) -> Value:
        """-offset · 2^up · Σ q_x of a sub-block of a block, int32; signed weights have no `up`."""
        offset, of_block = offset_of(self._fmt) << up, x.at(times(b, unit, X_BLOCK_BYTES))
        if not offset:
            return ir.Constant(I32.vector, None)
        if self.SUB_BLOCKS == 1:
            return _divided(b, of_block.at(MINUS_SUM).load(_INT), SUM_FACTOR // offset)
        assert offset == HALF_SUM_FACTOR
        first = of_block.at(MINUS_HALF_SUM).load(_INT)
        if sub_block == 0:
            return first
        return b.sub(_divided(b, of_block.at(MINUS_SUM).load(_INT), SUM_FACTOR // offset), first)

    def add(self, b: ir.IRBuilder, y: Value, dots: list[Value], scales: Values, x: XParts, unit: Value | int) -> Value:
        """y with the products of a block."""
        (d, other), x = scales, x.at(times(b, unit, X_BLOCK_BYTES))
        sums = [b.sitofp(dot, F32.vector) for dot in dots]
        if self.SUB_BLOCKS == 2:
            return fma(b, fma(b, sums[1], other, b.fmul(sums[0], d)), x.load(_FLOAT), y)
        y = fma(b, sums[0], b.fmul(d, x.load(_FLOAT)), y)
        return fma(b, other, x.at(D_SUM).load(_FLOAT), y) if other else y

    def end(
        self,
        b: ir.IRBuilder,
        sums: Iterable[Value],
        y: Iterable[Value],
        units: Iterable[Values],
        whole: Callable[[], Values],
        x: list[XParts],
    ) -> Iterable[Value]:
        """Nothing is left to do."""
        return sums


def _divided(b: ir.IRBuilder, v: Value, factor: int) -> Value:
    """v divided by a power of two, of which it is a multiple."""
    bits = factor.bit_length() - 1
    assert factor == 1 << bits, "offsets are powers of two, up to SUM_FACTOR"
    return b.ashr(v, ir.Constant(v.type, [bits] * v.type.count)) if bits else v
