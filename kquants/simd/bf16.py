"""Dot products of bfloat16 on CPUs with AVX-512 BF16: vectors of 32, two for each float32 lane."""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler import cpu
from kquants.simd.memory import load, pointer
from kquants.simd.vectors import F32, call, define, lanes_below

HAS_BF16_PAIRS = cpu.has("avx512bf16")
"""Whether the CPU multiplies pairs of bfloat16 and adds both products to a float32."""


class _BFloat(ir.Type):
    """LLVM's bfloat type, for which llvmlite has no class."""

    width = 16

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


BF16_PAIRS = ir.VectorType(_BFloat(), 32)


def dot_bf16(b: ir.IRBuilder, sums: Any, w: Any, x: Any) -> Any:
    """Add to each lane the product of the second bfloat16 of w and x, then that of the first.

    Each addition rounds once. Denormals count as 0.
    """
    return call(b, "llvm.x86.avx512bf16.dpbf16ps.512", F32.vector, sums, w, x)


@define(types.none, types.int64, F32, F32)
def store_as_bf16(b: ir.IRBuilder, address: Any, low: Any, high: Any) -> None:
    """Store 32 float32 as bfloat16, rounded to nearest, ties to even; denormals as 0."""
    v = call(b, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", BF16_PAIRS, high, low)
    b.store(v, pointer(b, address, v.type), align=1)


@define(F32, F32, types.int64, types.int64)
def add_bf16_products(b: ir.IRBuilder, sums: Any, w: Any, x: Any) -> Any:
    """The sums plus the products of the 32 bfloat16 at two addresses."""
    return dot_bf16(b, sums, *(load(b, address, BF16_PAIRS) for address in (w, x)))


@define(F32, F32, *[types.int64] * 3)
def add_bf16_products_part(b: ir.IRBuilder, sums: Any, w: Any, x: Any, count: Any) -> Any:
    """The same with the first `count` bfloat16 at w; those behind count as zeros."""
    shorts, one = ir.VectorType(ir.IntType(16), 32), ir.IntType(32)(1)
    given = pointer(b, w, shorts), one, lanes_below(b, count, 32), ir.Constant(shorts, None)
    part = call(b, "llvm.masked.load.v32i16.p0", shorts, *given)
    return dot_bf16(b, sums, b.bitcast(part, BF16_PAIRS), load(b, x, BF16_PAIRS))
