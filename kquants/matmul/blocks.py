"""Formats without super-blocks: every block of 32 weights has a float scale, and some a float minimum.

Such a format is w = d · (u - offset) + m: unsigned bytes u, one offset for the format, float32 d and m of a block; it
has an offset or m, not both. For each block of a row, or of a part of one (see `kquants.matmul.split_k`), in order of
k, with d_x and q_x of `kquants.activations.quantized`:

    y = fma(float(Σ (u - offset) · q_x), d · d_x, y),  then where there is m  y = fma(m, d_x · Σ q_x, y)
"""

from collections.abc import Callable, Iterable

from llvmlite import ir

from kquants.activations.quantized import D_SUM, MINUS_OFFSET_SUM, MINUS_SUM
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

    SUMS, SUB_BLOCKS, X_GROUP_BYTES, X_BLOCK_BYTES = F32, 1, BLOCK_GROUP_BYTES, X_BLOCK_BYTES

    def __init__(self, fmt: Format) -> None:
        self._fmt = fmt

    def begin(self, b: ir.IRBuilder, y: Value) -> Value:
        """The sums are y itself."""
        return y

    def start(self, b: ir.IRBuilder, x: XParts, unit: Value | int, sub_block: int, up: int = 0) -> DotAccumulator:
        """The sums before any product: -offset · 2^up · Σ q_x."""
        return start_dot4(b, self.minus_offset(b, x, unit, up), self._fmt.BITS, is_signed(self._fmt))

    def minus_offset(self, b: ir.IRBuilder, x: XParts, unit: Value | int, up: int = 0) -> Value:
        """-offset · 2^up · Σ q_x of a block, int32."""
        offset, signed = offset_of(self._fmt), is_signed(self._fmt)
        if not offset:
            return ir.Constant(I32.vector, None)
        total = x.at(MINUS_OFFSET_SUM if signed else MINUS_SUM, times(b, unit, X_BLOCK_BYTES)).load(_INT)
        return total if signed else b.mul(total, ir.Constant(I32.vector, [offset << up] * 16))

    def add(self, b: ir.IRBuilder, y: Value, dots: list[Value], scales: Values, x: XParts, unit: Value | int) -> Value:
        """y with the products of a block."""
        (d, m), x = scales, x.at(times(b, unit, X_BLOCK_BYTES))
        y = fma(b, b.sitofp(dots[0], F32.vector), b.fmul(d, x.load(_FLOAT)), y)
        return fma(b, m, x.at(D_SUM).load(_FLOAT), y) if m else y

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
