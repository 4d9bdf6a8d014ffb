"""FMA and float16 conversions for x86 CPUs without FMA and F16C (before about 2013), in plain vector operations.

LLVM would call a run-time library for each element, and kernels have none. The results have the same bits as those of
the instructions. Each function takes scalars and vectors.
"""

from typing import Any

from llvmlite import ir

_SHORT, _INT, _LONG = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()


def _like(v: Any, element: ir.Type) -> Any:
    """The type of a scalar, or of a vector, with another element."""
    return ir.VectorType(element, v.type.count) if isinstance(v.type, ir.VectorType) else element


def _all(kind: Any, value: float) -> Any:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def fma(b: ir.IRBuilder, x: Any, y: Any, z: Any) -> Any:
    """x · y + z of float32, rounded once.

    The product is exact in float64. The sum is rounded to odd there: its last bit tells whether the sum was inexact, so
    that rounding it again to float32 is correct (S. Boldo, G. Melquiond: Emulation of FMA and correctly rounded sums,
    2008).
    """
    doubles, longs = _like(x, _DOUBLE), _like(x, _LONG)
    p, z = b.fmul(b.fpext(x, doubles), b.fpext(y, doubles)), b.fpext(z, doubles)
    total = b.fadd(p, z)
    part = b.fsub(total, p)
    lost = b.fadd(b.fsub(p, b.fsub(total, part)), b.fsub(z, part))
    zero, one, minus_one = _all(doubles, 0.0), _all(longs, 1), _all(longs, -1)
    bits = b.bitcast(total, longs)
    outwards = b.icmp_signed("==", b.fcmp_ordered(">", lost, zero), b.fcmp_ordered(">", total, zero))
    odd = b.or_(b.select(outwards, bits, b.add(bits, minus_one)), one)
    # For Inf and NaN, `lost` is NaN, and the comparison is false.
    bits = b.select(b.fcmp_ordered("!=", lost, zero), odd, bits)
    return b.fptrunc(b.bitcast(bits, doubles), _like(x, _FLOAT))


def half_to_float(b: ir.IRBuilder, half: Any) -> Any:
    """The float32 of float16 bits."""
    ints = _like(half, _INT)
    w = b.zext(half, ints)
    shifted = b.shl(b.and_(w, _all(ints, 0x7FFF)), _all(ints, 13))
    # The exponents' biases differ by 127 - 15 = 112; the product is correct for denormals, too.
    scaled = b.fmul(b.bitcast(shifted, _like(half, _FLOAT)), _all(_like(half, _FLOAT), 2.0**112))
    special = b.or_(shifted, _all(ints, 0x7F800000))
    is_special = b.icmp_unsigned(">=", shifted, _all(ints, 0x7C00 << 13))  # Inf and NaN
    magnitude = b.select(is_special, special, b.bitcast(scaled, ints))
    sign = b.shl(b.and_(w, _all(ints, 0x8000)), _all(ints, 16))
    return b.bitcast(b.or_(magnitude, sign), _like(half, _FLOAT))


def float_to_half(b: ir.IRBuilder, x: Any) -> Any:
    """The float16 bits of a float32, rounded to nearest, ties to even."""
    ints, floats = _like(x, _INT), _like(x, _FLOAT)
    w = b.bitcast(x, ints)
    a = b.and_(w, _all(ints, 0x7FFFFFFF))
    odd = b.and_(b.lshr(a, _all(ints, 13)), _all(ints, 1))
    rounded = b.lshr(b.add(a, b.add(odd, _all(ints, 0xFFF))), _all(ints, 13))
    normal = b.sub(rounded, _all(ints, (127 - 15) << 10))
    # Adding 0.5, whose last bit is 2**-24 like that of a denormal float16, rounds at that bit.
    aligned = b.bitcast(b.fadd(b.bitcast(a, floats), _all(floats, 0.5)), ints)
    denormal = b.sub(aligned, _all(ints, 0x3F000000))
    finite = b.select(b.icmp_unsigned("<", a, _all(ints, 0x38800000)), denormal, normal)  # below 2**-14
    is_nan = b.icmp_unsigned(">", a, _all(ints, 0x7F800000))
    special = b.select(is_nan, _all(ints, 0x7E00), _all(ints, 0x7C00))
    magnitude = b.select(b.icmp_unsigned(">=", a, _all(ints, 0x47800000)), special, finite)  # 65536
    sign = b.and_(b.lshr(w, _all(ints, 16)), _all(ints, 0x8000))
    return b.trunc(b.or_(magnitude, sign), _like(x, _SHORT))
