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

from kquants.activations.quantized import D_SUM, MINUS_HALF_SUMS, MINUS_OFFSET_SUM
from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import Format, Values, is_signed, offset_of
from kquants.layout import BLOCK_GROUP_BYTES, X_BLOCK_BYTES
from kquants.matmul.split_k import XParts
from kquants.simd import F32, I32, fma, times
from kquants.simd.dot2 import HAS_INT16_DOT, dot2, high_int16, low_int16
from kquants.simd.dot4 import start_dot4
from kquants.simd.dot_accumulator import DotAccumulator

_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_INT16S = ir.VectorType(ir.IntType(16), 32)


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
        offset, signed, zero = offset_of(self._fmt) << up, is_signed(self._fmt), ir.Constant(I32.vector, None)
        if not offset:
            return zero
        of_block = x.at(times(b, unit, X_BLOCK_BYTES))
        if signed:
            return of_block.at(MINUS_OFFSET_SUM).load(_INT)
        halves, taken = of_block.at(MINUS_HALF_SUMS), (0, 1) if self.SUB_BLOCKS == 1 else (sub_block,)
        if HAS_INT16_DOT:
            factors = ir.Constant(_INT16S, [offset * (half in taken) for half in (0, 1)] * 16)
            return dot2(b, zero, halves.load(_INT), b.bitcast(factors, I32.vector))

        def scaled(both: Value) -> Value:
            sums = [(low_int16, high_int16)[half](b, both) for half in taken]
            total = b.add(*sums) if len(sums) == 2 else sums[0]
            return b.mul(total, ir.Constant(both.type, [offset] * both.type.count))

        return halves.load(_INT, scaled)

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
