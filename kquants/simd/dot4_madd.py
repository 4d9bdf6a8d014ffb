"""Dot products of bytes on x86 without VNNI: vpmaddubsw and vpmaddwd, or their 128-bit forms."""

import math
from typing import Any

from llvmlite import ir

from kquants.simd import at, call, computed_here, load, split
from kquants.simd.dot_accumulator import DotAccumulator, every_lane

_SHORT = ir.IntType(16)


class Madd512(DotAccumulator):
    """Sums of two products of bytes as int16 (vpmaddubsw), then sums of two of these as int32 (vpmaddwd).

    vpmaddubsw saturates beyond 7 bits of the unsigned side. For signed weights, one side's magnitude is the unsigned
    operand and its sign moves to the other side. Unsigned weights of 8 bits are split into nibbles. Sums are
    `computed_here`: otherwise LLVM computes one sum after the other and, with only 16 registers, loads and stores all
    weights again for each (half the speed).
    """

    TWO_BYTES, TWO_SHORTS = "llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"

    def __init__(
        self, b: ir.IRBuilder, sums: Any, bits: int = 8, signed: bool = False, first: Any = None, factors: Any = None
    ) -> None:
        super().__init__(b, sums, bits, signed)
        self._in_nibbles, self._factors = bits == 8 and not signed, factors
        # (2**bits - 1) · 256 · 2**(7 - bits) < 2**15: products that fit into int16. With `first` all of a sub-block do.
        self._longest: float = 1 << (7 - (4 if self._in_nibbles else min(bits, 7)))
        self._chains: dict[tuple[int, int], tuple[int, Any]] = {}
        if first:
            self._longest = math.inf
            shorts = ir.VectorType(_SHORT, self.WIDTH // 16)
            for i, piece in enumerate(split(b, first, len(self._sums))):
                self._chains[i, 0] = 1, b.bitcast(piece, shorts)

    def _add(self, i: int, u: Any, s: Any) -> None:
        b = self._b
        if self._signed:
            if self._bits < 8:
                # As neither is -128, the sign of either may be moved. The magnitude of s is computed once for many
                # rows of W. (Measured on Zen 4 with AVX2 alone: IQ4_NL decodes 8 % faster, IQ4_XS 5 %.)
                u, s = s, u
            u, s = call(b, f"llvm.abs.v{self.WIDTH // 8}i8", u.type, u, ir.IntType(1)(0)), self._with_sign(s, u)
        if self._in_nibbles:
            self._extend(i, 4, b.lshr(u, every_lane(u.type, 4)), s)
            u = b.and_(u, every_lane(u.type, 15))
        self._extend(i, 0, u, s)

    def _with_sign(self, s: Any, u: Any) -> Any:
        return self._b.select(self._b.icmp_signed("<", u, every_lane(u.type, 0)), self._b.neg(s), s)

    def _extend(self, i: int, shift: int, u: Any, s: Any) -> None:
        """Add products to the int16 chain of piece i whose sums count 2**shift times."""
        product = call(self._b, self.TWO_BYTES, ir.VectorType(_SHORT, self.WIDTH // 16), u, s)
        length, chain = self._chains.pop((i, shift), (0, None))
        self._chains[i, shift] = length + 1, computed_here(self._b, self._b.add(chain, product)) if length else product
        if length + 1 == self._longest:
            self._widen(i, shift)

    def _widen(self, i: int, shift: int) -> None:
        _, chain = self._chains.pop((i, shift))
        factors = every_lane(chain.type, 1 << shift)
        if self._factors:
            factors = load(self._b, at(self._b, self._factors, self.WIDTH // 8 * i), chain.type)
        ints = call(self._b, self.TWO_SHORTS, self._sums[i].type, chain, factors)
        self._sums[i] = self._b.add(self._sums[i], ints)
        if self._longest == 1:
            self._sums[i] = computed_here(self._b, self._sums[i])

    def total(self) -> Any:
        """The lanes, with all chains widened and added."""
        for i, shift in list(self._chains):
            self._widen(i, shift)
        return super().total()

    def int16_sums(self) -> Any:
        """The only chain, of a single piece."""
        assert len(self._chains) == 1, "some products were widened"
        ((_, chain),) = self._chains.values()
        return chain


class Madd256(Madd512):
    """The same with 256 bits (AVX2)."""

    WIDTH = 256
    TWO_BYTES, TWO_SHORTS = "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"

    def _with_sign(self, s: Any, u: Any) -> Any:
        return call(self._b, "llvm.x86.avx2.psign.b", s.type, s, u)


class Madd128(Madd512):
    """The same with 128 bits (SSSE3)."""

    WIDTH = 128
    TWO_BYTES, TWO_SHORTS = "llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"

    def _with_sign(self, s: Any, u: Any) -> Any:
        return call(self._b, "llvm.x86.ssse3.psign.b.128", s.type, s, u)
