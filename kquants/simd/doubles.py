"""Sums of float64, for squares of float32, which overflow float32 and need more digits the more of them are added."""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.simd.memory import load, pointer
from kquants.simd.vectors import F32, VectorType, define, reduce_lanes

_DOUBLE = ir.DoubleType()

F64 = VectorType("f64x16", _DOUBLE, 16)

zero_f64 = define(F64)(lambda b: ir.Constant(F64.vector, None))
sum_f64 = define(types.float64, F64)(lambda b, x: reduce_lanes(b, x, b.fadd))


@define(F64, F64, F32)
def add_square(b: ir.IRBuilder, total: Any, x: Any) -> Any:
    """total + x², where x² is exact."""
    wide = b.fpext(x, F64.vector)
    return b.fadd(total, b.fmul(wide, wide))


@define(F64, types.int64)
def load_f64x16(b: ir.IRBuilder, address: Any) -> Any:
    """Load 16 float64."""
    return load(b, address, F64.vector)


@define(types.none, types.int64, F64)
def store_f64x16(b: ir.IRBuilder, address: Any, v: Any) -> None:
    """Store 16 float64."""
    b.store(v, pointer(b, address, v.type), align=1)


@define(types.none, types.int64, types.float64)
def store_f64(b: ir.IRBuilder, address: Any, value: Any) -> None:
    """Store a float64."""
    b.store(value, pointer(b, address, _DOUBLE), align=1)
