"""Arithmetic of float32, computed as written: never fused, never reordered.

`sum_f32` adds the lanes in one fixed order, so a result depends only on its operands.
"""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler import cpu, old_x86
from kquants.simd.vectors import F32, I32, call, define, lanes_below, reduce_lanes, splat

_SHORT, _INT, _FLOAT = ir.IntType(16), ir.IntType(32), ir.FloatType()
_FMA = not cpu.is_x86() or cpu.has("fma")
_F16C = not cpu.is_x86() or cpu.has("f16c")


def all_f32(value: float) -> Any:
    """A constant in all lanes."""
    return ir.Constant(F32.vector, [value] * 16)


def fma(b: ir.IRBuilder, x: Any, y: Any, z: Any) -> Any:
    """x · y + z of vectors of float32, rounded once."""
    return call(b, f"llvm.fma.v{x.type.count}f32", x.type, x, y, z) if _FMA else old_x86.fma(b, x, y, z)


def half_to_float(b: ir.IRBuilder, half: Any) -> Any:
    """The float32 of float16 bits, a scalar or several lanes."""
    if not _F16C:
        return old_x86.half_to_float(b, half)
    halves, floats = (
        ir.VectorType(kind, half.type.count) if isinstance(half.type, ir.VectorType) else kind
        for kind in (ir.HalfType(), _FLOAT)
    )
    return b.fpext(b.bitcast(half, halves), floats)


def float_to_float(b: ir.IRBuilder, v: Any) -> Any:
    """Float32 as it is."""
    return v


def bf16_to_float(b: ir.IRBuilder, v: Any) -> Any:
    """The float32 of bfloat16 bits, of several lanes."""
    ints, floats = (ir.VectorType(kind, v.type.count) for kind in (_INT, _FLOAT))
    return b.bitcast(b.shl(b.zext(v, ints), ir.Constant(ints, [16] * v.type.count)), floats)


def float_to_half(b: ir.IRBuilder, x: Any) -> Any:
    """The float16 bits nearest to float32, ties to even, a scalar or 16 lanes."""
    if not _F16C:
        return old_x86.float_to_half(b, x)
    half, short = ir.HalfType(), _SHORT
    if isinstance(x.type, ir.VectorType):
        half, short = ir.VectorType(half, 16), ir.VectorType(short, 16)
    return b.bitcast(b.fptrunc(x, half), short)


splat_f32 = define(F32, types.float32)(splat)
add_f32 = define(F32, F32, F32)(lambda b, x, y: b.fadd(x, y))
sub_f32 = define(F32, F32, F32)(lambda b, x, y: b.fsub(x, y))
mul_f32 = define(F32, F32, F32)(lambda b, x, y: b.fmul(x, y))
div_f32 = define(F32, F32, F32)(lambda b, x, y: b.fdiv(x, y))
fma_f32 = define(F32, F32, F32, F32)(fma)
max_f32 = define(F32, F32, F32)(lambda b, x, y: call(b, "llvm.maxnum.v16f32", F32.vector, x, y))
min_f32 = define(F32, F32, F32)(lambda b, x, y: call(b, "llvm.minnum.v16f32", F32.vector, x, y))
abs_f32 = define(F32, F32)(lambda b, x: call(b, "llvm.fabs.v16f32", F32.vector, x))
copysign_f32 = define(F32, F32, F32)(lambda b, x, y: call(b, "llvm.copysign.v16f32", F32.vector, x, y))
round_f32 = define(F32, F32)(lambda b, x: call(b, "llvm.rint.v16f32", F32.vector, x))
square_root = define(types.float32, types.float32)(lambda b, x: call(b, "llvm.sqrt.f32", _FLOAT, x))
sum_f32 = define(types.float32, F32)(lambda b, x: reduce_lanes(b, x, b.fadd))


@define(types.float32, F32)
def first_f32(b: ir.IRBuilder, x: Any) -> Any:
    """Lane 0."""
    return b.extract_element(x, _INT(0))


@define(types.float32, F32)
def largest_f32(b: ir.IRBuilder, x: Any) -> Any:
    """The largest lane."""
    return reduce_lanes(b, x, lambda p, q: call(b, f"llvm.maxnum.v{p.type.count}f32", p.type, p, q))


@define(F32, F32, types.int64, types.float32)
def keep_f32(b: ir.IRBuilder, x: Any, count: Any, other: Any) -> Any:
    """`x` in the first `count` lanes, `other` in the others."""
    return b.select(lanes_below(b, count), x, splat(b, other))


def larger(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    """The larger of x and y; y where one is NaN. One instruction on x86, unlike `max_f32`."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)


larger_f32 = define(F32, F32, F32)(larger)


@define(F32, F32, F32, F32, F32)
def where_less_f32(b: ir.IRBuilder, x: Any, y: Any, less: Any, other: Any) -> Any:
    """`less` in the lanes where x < y, `other` where not or where one is NaN."""
    return b.select(b.fcmp_ordered("<", x, y), less, other)


@define(F32, F32, F32)
def unless_nan(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    """`x`, but NaN where y is NaN."""
    return b.select(b.fcmp_unordered("uno", y, y), y, x)


def power_of_two(b: ir.IRBuilder, n: Any) -> Any:
    """2**n of 16 int32 in [-126, 127]: n becomes the exponent bits."""
    biased = b.add(n, ir.Constant(I32.vector, [127] * 16))
    return b.bitcast(b.shl(biased, ir.Constant(I32.vector, [23] * 16)), F32.vector)


@define(F32, F32)
def exp2_of_whole(b: ir.IRBuilder, n: Any) -> Any:
    """2**n for whole n in [-126, 127]."""
    return power_of_two(b, b.fptosi(n, I32.vector))


@define(F32, F32)
def lowest_bits_as_exponent(b: ir.IRBuilder, x: Any) -> Any:
    """2**(n - 127), where n < 256 is the number in the lowest 9 bits of a float; 0 for n = 0."""
    bits = b.shl(b.bitcast(x, I32.vector), ir.Constant(I32.vector, [23] * 16))
    return b.bitcast(bits, F32.vector)
