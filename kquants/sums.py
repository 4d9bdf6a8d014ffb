"""Sums for several rows of x at once: a tuple of vectors that stay in registers.

`TOKENS` rows of x go together through what is multiplied with them.
"""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.cpu import has
from kquants.lanes import pack, unpack
from kquants.simd import F32, define, fma, fold, pointer

TOKENS = 8 if has("avx512f") else 2
"""Rows of x that go together: as many as the registers hold sums for."""

_LONG = ir.IntType(64)
_VF = F32.vector

FloatSums = types.UniTuple(F32, TOKENS)


zero_sums = define(FloatSums)(lambda b: ir.Constant(ir.ArrayType(_VF, TOKENS), None))


@define(FloatSums, FloatSums, F32, types.int64, types.int64)
def fma_tokens(b: ir.IRBuilder, y: Any, w: Any, x: Any, stride: Any) -> Any:
    """y + w · the 16 float32 of each token at `x`, fused."""
    at = [pointer(b, b.add(x, b.mul(stride, _LONG(t))), _VF) for t in range(TOKENS)]
    return pack(b, [fma(b, w, b.load(p, align=1), old) for p, old in zip(at, unpack(b, y), strict=True)])


@define(types.none, types.int64, FloatSums)
def store_totals(b: ir.IRBuilder, address: Any, y: Any) -> None:
    """The sum over the lanes of each token, as `sum_f32` has it: TOKENS float32."""
    for t, v in enumerate(unpack(b, y)):
        b.store(fold(b, v, b.fadd), pointer(b, b.add(address, _LONG(4 * t)), ir.FloatType()), align=1)
