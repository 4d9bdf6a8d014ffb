"""Vector operations that only encoders need, next to those of `kquants.simd`."""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.simd import F32, I32, call, define, float_to_half, half_to_float, pointer, splat

_BYTE, _SHORT, _INT, _LONG = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)


def stack_buffer(n: int) -> Any:
    """An operation that returns the address of `n` bytes on the stack of the calling function."""

    @define(types.int64)
    def take(b: ir.IRBuilder) -> Any:
        # Not Numba's own alloca, which clears the bytes: for thousands of bytes that costs LLVM seconds.
        with b.goto_entry_block():
            place = b.alloca(ir.ArrayType(_BYTE, n))
        place.align = 64
        return b.ptrtoint(place, _LONG)

    return take


# --- floats --------------------------------------------------------------------------------------------

round_to_half = define(F32, F32)(lambda b, x: half_to_float(b, float_to_half(b, x)))


@define(F32, F32)
def round_away(b: ir.IRBuilder, x: Any) -> Any:
    """Each lane rounded to an integer, ties away from zero; magnitudes are below 2**31."""
    # Just below a half: 0.49999997 plus a half would round to 1.
    almost_half = call(b, "llvm.copysign.v16f32", x.type, ir.Constant(x.type, [0.49999997019767761] * 16), x)
    return b.sitofp(b.fptosi(b.fadd(x, almost_half), I32.vector), x.type)


@define(types.int32, F32, types.float32)
def lanes_beyond(b: ir.IRBuilder, x: Any, limit: Any) -> Any:
    """A bit for each lane that is NaN or whose magnitude is above the limit."""
    size = call(b, "llvm.fabs.v16f32", x.type, x)
    return b.zext(b.bitcast(b.fcmp_unordered(">", size, splat(b, limit)), _SHORT), _INT)


@define(types.int32, types.int32)
def lowest_bit(b: ir.IRBuilder, bits: Any) -> Any:
    """The index of the lowest set bit; 32 if none is set."""
    return b.cttz(bits, ir.Constant(ir.IntType(1), 0))


@define(types.none, types.int64, F32)
def store_bf16x16(b: ir.IRBuilder, address: Any, x: Any) -> None:
    """Store 16 finite float32 as BF16, to nearest, ties to even."""
    bits, narrow = b.bitcast(x, I32.vector), ir.VectorType(_SHORT, 16)
    odd = b.and_(b.lshr(bits, splat(b, _INT(16))), splat(b, _INT(1)))
    rounded = b.lshr(b.add(bits, b.add(odd, splat(b, _INT(0x7FFF)))), splat(b, _INT(16)))
    b.store(b.trunc(rounded, narrow), pointer(b, address, narrow), align=1)


# --- words ---------------------------------------------------------------------------------------------

zero_i32 = define(I32)(lambda b: ir.Constant(I32.vector, None))
or_i32 = define(I32, I32, I32)(lambda b, x, y: b.or_(x, y))
and_i32 = define(I32, I32, types.int32)(lambda b, x, bits: b.and_(x, splat(b, bits)))
shift_left_i32 = define(I32, I32, types.int32)(lambda b, x, n: b.shl(x, splat(b, n)))
shift_right_i32 = define(I32, I32, types.int32)(lambda b, x, n: b.lshr(x, splat(b, n)))
whole_i32 = define(I32, F32)(lambda b, x: b.fptosi(x, I32.vector))


@define(types.none, types.int64, I32, types.int64)
def store_i32_apart(b: ir.IRBuilder, address: Any, v: Any, stride: Any) -> None:
    """Store 16 words, `stride` bytes from one to the next."""
    for i in range(16):
        at = b.add(address, b.mul(stride, _LONG(i)))
        b.store(b.extract_element(v, _INT(i)), pointer(b, at, _INT), align=1)


# --- exponents and small floats -------------------------------------------------------------------------


def _all_i32(n: int) -> Any:
    return ir.Constant(I32.vector, [n] * 16)


@define(F32, F32)
def exponent_f32(b: ir.IRBuilder, x: Any) -> Any:
    """The exponent n of 2^n <= x < 2^(n + 1), for x >= 0; -127 for 0 and denormals."""
    biased = b.lshr(b.bitcast(x, I32.vector), _all_i32(23))
    return b.sitofp(b.sub(biased, _all_i32(127)), F32.vector)


_UE4M3_BIAS = (127 - 7) << 23
_DENORMAL_STEP = 2.0**-9


@define(F32, F32)
def float_of_ue4m3(b: ir.IRBuilder, code: Any) -> Any:
    """The float that a code 0 … 126 stands for (see `kquants.formats.ue4m3`)."""
    i = b.fptosi(code, I32.vector)
    normal = b.bitcast(b.add(b.shl(i, _all_i32(20)), _all_i32(_UE4M3_BIAS)), F32.vector)
    denormal = b.fmul(code, ir.Constant(F32.vector, [_DENORMAL_STEP] * 16))
    return b.select(b.icmp_signed("<", i, _all_i32(8)), denormal, normal)


@define(F32, F32)
def ue4m3_of_float(b: ir.IRBuilder, x: Any) -> Any:
    """The code of a float next to x, which is 0 to 480; the nearer one for denormals, the lower one for others."""
    bits = b.sub(b.bitcast(x, I32.vector), _all_i32(_UE4M3_BIAS))
    normal = b.sitofp(b.ashr(bits, _all_i32(20)), F32.vector)
    denormal = call(b, "llvm.rint.v16f32", x.type, b.fmul(x, ir.Constant(F32.vector, [1 / _DENORMAL_STEP] * 16)))
    return b.select(b.icmp_signed("<", bits, _all_i32(8 << 20)), denormal, normal)
