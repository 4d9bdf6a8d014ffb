"""Dot products of int16: two products added to each int32 lane (vpdpwssd, or vpmaddwd and an addition)."""

from typing import Any

from llvmlite import ir

from kquants.compiler.cpu import has, lowering
from kquants.simd import call, computed_here, joined, opaque, split
from kquants.simd.dot4_madd import Madd128, Madd256, Madd512
from kquants.simd.dot_accumulator import DotAccumulator, every_lane

_SHORT = ir.IntType(16)

_INSTRUCTIONS = {
    "AVX-512 VNNI": (512, "llvm.x86.avx512.vpdpwssd.512"),
    "AVX-VNNI": (256, "llvm.x86.avx512.vpdpwssd.256"),
    "AVX-512": (512, Madd512.TWO_SHORTS),
    "AVX2": (256, Madd256.TWO_SHORTS),
    "SSSE3": (128, Madd128.TWO_SHORTS),
}

HAS_INT16_DOT = lowering() in _INSTRUCTIONS
"""Whether one instruction multiplies two int16 with two others, and adds."""


def dot2(b: ir.IRBuilder, sums: Any, x: Any, y: Any) -> Any:
    """16 int32 sums and, to each, the products of two int16 of x with two of y; or eight, with AVX2 or AVX-VNNI."""
    if not HAS_INT16_DOT:
        low = b.mul(low_int16(b, x), low_int16(b, y))
        return b.add(b.add(sums, low), b.mul(high_int16(b, x), high_int16(b, y)))
    width, name = _INSTRUCTIONS[lowering()]
    adds = "VNNI" in lowering()
    parts = []
    for total, *two in zip(*(split(b, v, 32 * sums.type.count // width) for v in (sums, x, y)), strict=True):
        if not adds:
            two = [b.bitcast(v, ir.VectorType(_SHORT, width // 16)) for v in two]
        parts.append(call(b, name, total.type, total, *two) if adds else b.add(total, call(b, name, total.type, *two)))
    return joined(b, parts)


class Dot2(DotAccumulator):
    """The accumulator for int16, for CPUs with `VIA_INT16`: `add(u, s)` adds the products of a lane's two int16."""

    WIDTH, _NAME = _INSTRUCTIONS.get(lowering(), (512, ""))

    def _add(self, i: int, u: Any, s: Any) -> None:
        two = (self._b.bitcast(v, ir.VectorType(_SHORT, self.WIDTH // 16)) for v in (u, s))
        products = call(self._b, self._NAME, self._sums[i].type, *two)
        self._sums[i] = computed_here(self._b, self._b.add(self._sums[i], products))


def pair_int16(b: ir.IRBuilder, low: Any, high: Any) -> Any:
    """Two int16 in each lane: the low one of `low`, and above it the low one of `high`."""
    high = b.shl(high, every_lane(high.type, 16))
    if has("avx512bw"):
        # Keeps LLVM from turning shift and blend into a permutation of two registers, which costs a cycle beside
        # products. (Measured on Zen 4 with a row in each lane: Q4_K is 4 % faster.)
        high = opaque(b, high)
    shorts = ir.VectorType(_SHORT, 32)
    odd = ir.Constant(ir.VectorType(ir.IntType(1), 32), [0, 1] * 16)
    return b.bitcast(b.select(odd, b.bitcast(high, shorts), b.bitcast(low, shorts)), low.type)


def low_int16(b: ir.IRBuilder, v: Any) -> Any:
    """The low int16 of each lane as int32."""
    return b.ashr(b.shl(v, every_lane(v.type, 16)), every_lane(v.type, 16))


def high_int16(b: ir.IRBuilder, v: Any) -> Any:
    """The high int16 of each lane as int32."""
    return b.ashr(v, every_lane(v.type, 16))
