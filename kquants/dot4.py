"""The product of four unsigned bytes with four signed ones, by what the CPU has for it."""

from typing import Any

from llvmlite import ir

from kquants.jit import cpu_features
from kquants.simd import I32, call

_INT, _SHORT = ir.IntType(32), ir.IntType(16)


def dot4(b: ir.IRBuilder, sums: Any, u: Any, s: Any) -> Any:
    """Each int32 lane of `sums` plus the exact product of four unsigned bytes of u with four signed ones of s."""
    if "+avx512vnni" in cpu_features():
        u, s = b.bitcast(u, I32.vector), b.bitcast(s, I32.vector)
        return call(b, "llvm.x86.avx512.vpdpbusd.512", I32.vector, sums, u, s)
    shorts, wide = ir.VectorType(_SHORT, 64), ir.VectorType(_INT, 64)
    product = b.mul(b.zext(b.zext(u, shorts), wide), b.sext(b.sext(s, shorts), wide))
    return b.add(sums, _neighbours(b, _neighbours(b, product)))


def _neighbours(b: ir.IRBuilder, x: Any) -> Any:
    """Lanes 2i and 2i + 1 added."""
    even = list(range(0, x.type.count, 2))
    first, second = (ir.Constant(ir.VectorType(_INT, len(even)), [i + k for i in even]) for k in (0, 1))
    return b.add(b.shuffle_vector(x, x, first), b.shuffle_vector(x, x, second))
