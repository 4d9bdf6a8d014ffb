"""Formats with super-blocks: eight blocks of 32 weights, scaled by small integers, which floats scale as a whole.

Such a format is w = d · scale · (u - offset) - dmin · minimum, with integer scales (and minima, or an offset) of spans
of 32 or of 16 weights, and float32 d and dmin of the super-block. Activations have a scale D of their own for the
super-block, and an exponent e for each block, x = D · 2^e · q_x (see `kquants.activations.super_quantized`). So all but
the last step is exact in integers, and every CPU may add up in the order that suits it:

    A = Σ 2^e · scale · Σ (u - offset) · q_x        over all spans
    B = Σ 2^e · minimum · Σ q_x

    v = float(A) · d,  where there are minima  v = fma(-dmin, float(B), v),  then  y = fma(v, D, y)

for each super-block of a row, or of a part of one (see `kquants.matmul.split_k`), in order of k.

No 16 q_x have magnitudes that add up to more than `LARGEST_SUM`. So A stays below 2^30: the most that it can be is
Q6_K's 16 spans · 128 · 2^3 · 32 · 1023. And weights of at most 32 in spans of 16, or of 16 in spans of 32, keep the
sum of a span's products within int16. Spans go in pairs, as one instruction of x86 multiplies two int16 with two
others and adds.

Where products pass through int16 (`kquants.simd.dot4`), many rows of x do without pairs: the products of each span are
multiplied by scale · 2^e as they are widened. Spans of 16 have eight in each int16, of an x up to 127, so that with an
offset of 32 it is at most 32 · 8 · 127 = 32,512.

So do products by Winograd's way (`kquants.formats.winograd`): those of a span of 32 weights of 4 bits, at most
15 · 2 · 1023 = 30,690, are the lower int16 of a lane, whatever is above it, and multiplied by scale · 2^e as such.
"""

from collections.abc import Callable, Iterable, Iterator

from llvmlite import ir

from kquants.activations.super_quantized import (
    BLOCK_SUMS,
    EXPONENTS,
    EXPONENTS_TWICE,
    HALF_SUMS,
    MINUS_HALF_SUMS,
    POWERS,
    UNIT_OFFSET,
)
from kquants.compiler.cpu import has, is_arm
from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import Format, Values, is_signed, offset_of
from kquants.layout import LARGEST_SUM, SUPER_GROUP_BYTES, TILE_ROWS
from kquants.matmul.split_k import XParts
from kquants.simd import F32, I32, at, fma, load, pick, times
from kquants.simd.dot2 import HAS_INT16_DOT, dot2, high_int16, low_int16, pair_int16
from kquants.simd.dot4 import VIA_INT16, start_dot4, start_dot4_via_int16
from kquants.simd.dot_accumulator import DotAccumulator

_FLOAT, _SHORT, _INT, _LONG = ir.FloatType(), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_SHORTS = ir.VectorType(_SHORT, 32)
_ZERO = ir.Constant(I32.vector, None)

FACTORS = 2 * POWERS
"""Vectors of a unit's factors, see `IntegerScales.factors`."""


class IntegerScales:
    """How rows of x add up pair by pair; see `kquants.matmul.scaling.Scaling`."""

    SUMS, SUB_BLOCKS, X_GROUP_BYTES, X_BLOCK_BYTES = I32, 2, SUPER_GROUP_BYTES, 0

    def __init__(self, fmt: Format) -> None:
        self._fmt, self._halves = fmt, fmt.SUB_BLOCKS == 2
        largest = max(fmt.OFFSET, 2**fmt.BITS - 1 - fmt.OFFSET)
        self.are_short = largest * LARGEST_SUM * (1 if self._halves else 2) < 2**15

    def begin(self, b: ir.IRBuilder, y: Value) -> Value:
        """A begins at 0."""
        return _ZERO

    def start(self, b: ir.IRBuilder, x: XParts, unit: Value | int, span: int) -> DotAccumulator:
        """It begins with what the offset makes of the products: -offset · Σ q_x."""
        fmt = self._fmt
        if VIA_INT16 and not is_signed(fmt):
            return start_dot4_via_int16(b, _ZERO, fmt.BITS, self._minus_offset(b, x, unit, span))
        return start_dot4(b, self._minus_offset(b, x, unit, span) or _ZERO, fmt.BITS, is_signed(fmt))

    def start_scaled(
        self, b: ir.IRBuilder, sums: Value, factors: Value, x: XParts, unit: Value | int, span: int
    ) -> DotAccumulator:
        """The same of a format with factors, but it begins with A, and products are scaled as they come to it."""
        at_exponent = self._factors_at(b, factors, x, unit, span)
        return start_dot4_via_int16(b, sums, self._fmt.BITS, self._minus_offset(b, x, unit, span), at_exponent)

    def _minus_offset(self, b: ir.IRBuilder, x: XParts, unit: Value | int, span: int) -> Value | None:
        """Where there is an offset, -offset · Σ q_x of a span: an int32, or two int16 that belong to two bytes each."""
        offset = offset_of(self._fmt)
        if not offset:
            return None
        assert self.are_short or not VIA_INT16, "all of a span must fit into int16"
        size = 4 if self._halves else 8
        first = x.at(MINUS_HALF_SUMS + size * span, times(b, unit, 2 * size))
        kind = _SHORTS if VIA_INT16 else I32.vector
        halves = [b.bitcast(first.at(i).load(_INT), kind) for i in range(0, size, 4)]
        total = halves[0] if self._halves else b.add(*halves)
        up = offset.bit_length() - UNIT_OFFSET.bit_length()
        return (b.shl if up > 0 else b.ashr)(total, ir.Constant(total.type, [abs(up)] * total.type.count))

    def add(
        self, b: ir.IRBuilder, sums: Value, dots: list[Value], scales: Values, x: XParts, unit: Value | int
    ) -> Value:
        """A with the products of a pair."""
        first, second = dots
        if HAS_INT16_DOT and self.are_short:
            return self.add_paired(b, sums, pair_int16(b, first, second), scales, x, unit)
        scale = self.with_exponents(b, scales[0], x, unit)
        sums = b.add(sums, b.mul(first, low_int16(b, scale)))
        return b.add(sums, b.mul(second, high_int16(b, scale)))

    def add_paired(
        self, b: ir.IRBuilder, sums: Value, pairs: Value, scales: Values, x: XParts, unit: Value | int
    ) -> Value:
        """A with the products of a pair, given as two int16 in each lane."""
        return dot2(b, sums, pairs, self.with_exponents(b, scales[0], x, unit))

    def end(
        self,
        b: ir.IRBuilder,
        sums: Iterable[Value],
        y: Iterable[Value],
        units: Iterable[Values],
        whole: Callable[[], Values],
        x: list[XParts],
    ) -> Iterator[Value]:
        """y of each row with the super-block."""
        units = list(units)
        d, minus_dmin = whole()
        for row, total, before in zip(x, sums, y, strict=True):
            v = b.fmul(b.sitofp(total, F32.vector), d)
            if minus_dmin:
                v = fma(b, minus_dmin, b.sitofp(self._b_of_row(b, units, row), F32.vector), v)
            yield fma(b, v, row.load(_FLOAT), before)

    def _b_of_row(self, b: ir.IRBuilder, units: Iterable[Values], x: XParts) -> Value:
        """B of a row of x."""
        total, sums_at = _ZERO, HALF_SUMS if self._halves else BLOCK_SUMS
        for unit, (_, minima) in enumerate(units):
            total = dot2(b, total, minima, x.at(sums_at + 4 * unit).load(_INT))
        return total

    def add_scaled(
        self, b: ir.IRBuilder, sums: Value, dot: Value, factors: Value, x: XParts, unit: Value | int, span: int
    ) -> Value:
        """A with the products of a span of a format with factors, the lower int16 of each lane."""
        assert self.are_short, "all of a span must fit into int16"
        return dot2(b, sums, dot, load(b, self._factors_at(b, factors, x, unit, span), I32.vector))

    def factors(self, b: ir.IRBuilder, scales: Value) -> list[Value]:
        """What a pair's products may be scaled by: for both spans scale · 2^e of e = 0 … 3.

        Twice for each lane where the products are two int16, else for the low one, and 0 for what is above it.
        """
        both = self.of_sub_blocks(b, scales, twice=VIA_INT16)
        return [b.shl(scale, ir.Constant(_SHORTS, [e] * scale.type.count)) for scale in both for e in range(POWERS)]

    def of_sub_blocks(self, b: ir.IRBuilder, scales: Value, *, twice: bool = True) -> list[Value]:
        """The scales of each span of a pair as two int16 of each lane, or as the low one, with 0 above it."""
        pairs, nothing, shorts = b.bitcast(scales, _SHORTS), ir.Constant(_SHORTS, None), range(2 * TILE_ROWS)

        def of_sub_block(span: int) -> Value:
            lanes = [i & ~1 | span if twice or i % 2 == 0 else len(shorts) for i in shorts]
            return pick(b, pairs, nothing, lanes)

        return [of_sub_block(span) for span in range(self.SUB_BLOCKS)]

    def _factors_at(self, b: ir.IRBuilder, factors: Value, x: XParts, unit: Value | int, span: int) -> Value:
        """Where among those of a unit the ones for a span of a row of x are."""
        place = x.at(EXPONENTS_TWICE if self._halves else EXPONENTS, 2 * span, times(b, unit, 4)).address
        # What follows the last row of x may be read, but as an exponent it may be anything.
        e = b.and_(b.zext(load(b, place, _SHORT), _LONG), _LONG(POWERS - 1))
        return at(b, factors, 64 * POWERS * span, times(b, e, 64))

    def with_exponents(self, b: ir.IRBuilder, scales: Value, x: XParts, unit: Value | int) -> Value:
        """The scales of a pair, each times 2^e of its block."""
        exponents = x.at(EXPONENTS_TWICE if self._halves else EXPONENTS, times(b, unit, 4))
        if has("avx512bw") or is_arm():
            return _as_ints(b, b.shl(b.bitcast(scales, _SHORTS), b.bitcast(exponents.load(_INT), _SHORTS)))
        powers = exponents.load(_INT, lambda both: powers_of_two(b, both))
        return _as_ints(b, b.mul(b.bitcast(scales, _SHORTS), b.bitcast(powers, _SHORTS)))


def powers_of_two(b: ir.IRBuilder, both: Value) -> Value:
    """2^e of two int16 in each lane, for want of shifts by int16 that differ."""
    one, low, half = (ir.Constant(both.type, [n] * both.type.count) for n in (1, 0xFFFF, 16))
    return b.or_(b.shl(one, b.and_(both, low)), b.shl(b.shl(one, half), b.lshr(both, half)))


def _as_ints(b: ir.IRBuilder, shorts: Value) -> Value:
    return b.bitcast(shorts, I32.vector)
