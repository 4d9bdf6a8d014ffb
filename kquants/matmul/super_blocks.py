"""Formats with super-blocks: eight blocks of 32 weights, scaled by small integers, which floats scale as a whole.

Such a format is w = d · scale · (u - offset) - dmin · minimum, with integer scales (and minima, or an offset) of
sub-blocks of 32 or of 16 weights, and float32 d and dmin of the super-block. Activations have a scale D of their own
for the super-block, and an exponent e for each block, x = D · 2^e · q_x (see `kquants.activations.super_quantized`). So
all but the last step is exact in integers, and every CPU may add up in the order that suits it:

    A = Σ 2^e · scale · Σ (u - offset) · q_x        over all sub-blocks
    B = Σ 2^e · minimum · Σ q_x

    v = float(A) · d,  where there are minima  v = fma(-dmin, float(B), v),  then  y = fma(v, D, y)

for each super-block of a row, or of a part of one (see `kquants.matmul.split_k`), in order of k.

No 16 q_x have magnitudes that add up to more than `LARGEST_SUM`. So A stays below 2^30: at most it is Q6_K's 16
sub-blocks · 128 · 2^3 · 32 · 1023. And weights of at most 32 in sub-blocks of 16, or of 16 in sub-blocks of 32, keep
the sum of a sub-block's products within int16. Sub-blocks go in pairs, as one instruction of x86 multiplies two int16
with two others and adds.

Where products pass through int16 (`kquants.simd.dot4`), many rows of x do without pairs: the products of each sub-block
are multiplied by scale · 2^e as they are widened. Sub-blocks of 16 have eight products in each int16, of an x up to
127, so that with an offset of 32 their sum is at most 32 · 8 · 127 = 32,512.

By Winograd's inner product (`kquants.formats.winograd`), too, the sum of a sub-block of 32 weights of 4 bits, at most
15 · 2 · 1023 = 30,690, is the lower int16 of a lane, whatever is above it, and multiplied by scale · 2^e as such.
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
from kquants.simd import F32, I32, at, fma, load, shuffle, times
from kquants.simd.dot2 import HAS_INT16_DOT, dot2, high_int16, low_int16, pair_int16
from kquants.simd.dot4 import VIA_INT16, start_dot4, start_dot4_via_int16
from kquants.simd.dot_accumulator import DotAccumulator

_FLOAT, _INT16, _INT, _LONG = ir.FloatType(), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_INT16S = ir.VectorType(_INT16, 32)
_ZERO = ir.Constant(I32.vector, None)

FACTORS = 2 * POWERS
"""Vectors of a unit's factors, see `IntegerScales.factors`."""


class IntegerScales:
    """How rows of x add up pair by pair; see `kquants.matmul.scaling.Scaling`."""

    SUMS, SUB_BLOCKS, X_GROUP_BYTES, X_BLOCK_BYTES = I32, 2, SUPER_GROUP_BYTES, 0

    def __init__(self, fmt: Format) -> None:
        self._fmt, self._halves = fmt, fmt.SUB_BLOCKS == 2
        largest = max(fmt.OFFSET, 2**fmt.BITS - 1 - fmt.OFFSET)
        self.fit_int16 = largest * LARGEST_SUM * (1 if self._halves else 2) < 2**15

    def begin(self, b: ir.IRBuilder, y: Value) -> Value:
        """A begins at 0."""
        return _ZERO

    def start(self, b: ir.IRBuilder, x: XParts, unit: Value | int, sub_block: int, up: int = 0) -> DotAccumulator:
        """The sums before any product: -offset · 2^up · Σ q_x."""
        fmt = self._fmt
        if VIA_INT16 and not is_signed(fmt):
            return start_dot4_via_int16(b, _ZERO, fmt.BITS, self._minus_offset(b, x, unit, sub_block))
        return start_dot4(b, self._minus_offset(b, x, unit, sub_block, up) or _ZERO, fmt.BITS, is_signed(fmt))

    def start_scaled(
        self, b: ir.IRBuilder, sums: Value, factors: Value, x: XParts, unit: Value | int, sub_block: int
    ) -> DotAccumulator:
        """As `start`, for formats with factors: the accumulator starts at A and each product is scaled when added."""
        at_exponent = self._factors_at(b, factors, x, unit, sub_block)
        return start_dot4_via_int16(b, sums, self._fmt.BITS, self._minus_offset(b, x, unit, sub_block), at_exponent)

    def _minus_offset(self, b: ir.IRBuilder, x: XParts, unit: Value | int, sub_block: int, up: int = 0) -> Value | None:
        """-offset · 2^up · Σ q_x of a sub-block, if there is an offset: an int32, or two int16, of two bytes each."""
        offset = offset_of(self._fmt)
        if not offset:
            return None
        assert self.fit_int16 or not VIA_INT16, "all of a sub-block must fit into int16"
        size = 4 if self._halves else 8
        first = x.at(MINUS_HALF_SUMS + size * sub_block, times(b, unit, 2 * size))
        kind = _INT16S if VIA_INT16 else I32.vector
        halves = [b.bitcast(first.at(i).load(_INT), kind) for i in range(0, size, 4)]
        up += offset.bit_length() - UNIT_OFFSET.bit_length()

        def shifted(sums: Value) -> Value:
            return (b.shl if up > 0 else b.ashr)(sums, ir.Constant(sums.type, [abs(up)] * sums.type.count))

        if self._halves:
            return shifted(halves[0])
        # Halves are shifted down before they are added: their sum may be too large for an int16.
        return b.add(*map(shifted, halves)) if VIA_INT16 else shifted(b.add(*halves))

    def add(
        self, b: ir.IRBuilder, sums: Value, dots: list[Value], scales: Values, x: XParts, unit: Value | int
    ) -> Value:
        """A with the products of a pair."""
        first, second = dots
        if HAS_INT16_DOT and self.fit_int16:
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
        self, b: ir.IRBuilder, sums: Value, dot: Value, factors: Value, x: XParts, unit: Value | int, sub_block: int
    ) -> Value:
        """A with the products of a sub-block of a format with factors, the lower int16 of each lane."""
        assert self.fit_int16, "all of a sub-block must fit into int16"
        return dot2(b, sums, dot, load(b, self._factors_at(b, factors, x, unit, sub_block), I32.vector))

    def factors(self, b: ir.IRBuilder, scales: Value) -> list[Value]:
        """The factors of a pair's products: for both sub-blocks scale · 2^e of e = 0 … 3.

        Twice for each lane where the products are two int16, else for the low one, and 0 for what is above it.
        """
        both = self.of_sub_blocks(b, scales, twice=VIA_INT16)
        return [b.shl(scale, ir.Constant(_INT16S, [e] * scale.type.count)) for scale in both for e in range(POWERS)]

    def of_sub_blocks(self, b: ir.IRBuilder, scales: Value, *, twice: bool = True) -> list[Value]:
        """The scales of each sub-block of a pair as two int16 of each lane, or as the low one, with 0 above it."""
        pairs, nothing, all_lanes = b.bitcast(scales, _INT16S), ir.Constant(_INT16S, None), range(2 * TILE_ROWS)

        def of_sub_block(which: int) -> Value:
            lanes = [i & ~1 | which if twice or i % 2 == 0 else len(all_lanes) for i in all_lanes]
            return shuffle(b, pairs, nothing, lanes)

        return [of_sub_block(which) for which in range(self.SUB_BLOCKS)]

    def _factors_at(self, b: ir.IRBuilder, factors: Value, x: XParts, unit: Value | int, sub_block: int) -> Value:
        """The address, among the factors of a unit, of those for a sub-block of a row of x."""
        place = x.at(EXPONENTS_TWICE if self._halves else EXPONENTS, 2 * sub_block, times(b, unit, 4)).address
        # Behind the last row of x, which may be read, an exponent may be anything.
        e = b.and_(b.zext(load(b, place, _INT16), _LONG), _LONG(POWERS - 1))
        return at(b, factors, 64 * POWERS * sub_block, times(b, e, 64))

    def with_exponents(self, b: ir.IRBuilder, scales: Value, x: XParts, unit: Value | int) -> Value:
        """The scales of a pair, each times 2^e of its block."""
        exponents = x.at(EXPONENTS_TWICE if self._halves else EXPONENTS, times(b, unit, 4))
        if has("avx512bw") or is_arm():
            return _as_ints(b, b.shl(b.bitcast(scales, _INT16S), b.bitcast(exponents.load(_INT), _INT16S)))
        powers = exponents.load(_INT, lambda both: powers_of_two(b, both))
        return _as_ints(b, b.mul(b.bitcast(scales, _INT16S), b.bitcast(powers, _INT16S)))


def powers_of_two(b: ir.IRBuilder, both: Value) -> Value:
    """2^e of two int16 in each lane, for want of shifts by int16 that differ."""
    one, low, half = (ir.Constant(both.type, [n] * both.type.count) for n in (1, 0xFFFF, 16))
    return b.or_(b.shl(one, b.and_(both, low)), b.shl(b.shl(one, half), b.lshr(both, half)))


def _as_ints(b: ir.IRBuilder, pairs: Value) -> Value:
    return b.bitcast(pairs, I32.vector)
