"""Loads and stores of vectors: of 16 floats, all or the first of them, and of bytes."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kquants.compiler import cpu
from kquants.simd.floats import all_f32, bf16_to_float, float_to_float, float_to_half, half_to_float
from kquants.simd.memory import pointer
from kquants.simd.vectors import F32, I8, I32, Emit, call, define, lanes_below

_BOOL, _BYTE, _SHORT, _INT, _LONG = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
_FLOAT = ir.FloatType()


def _vector_loads(element: ir.Type, widen: Emit) -> tuple[Any, Any]:
    """(load 16 elements, load the first `count` of them with zeros in the other lanes)."""
    memory = ir.VectorType(element, 16)

    @define(F32, types.int64)
    def load(b: ir.IRBuilder, address: Any) -> Any:
        return widen(b, b.load(pointer(b, address, memory), align=1))

    @define(F32, types.int64, types.int64)
    def load_part(b: ir.IRBuilder, address: Any, count: Any) -> Any:
        place = pointer(b, address, memory)
        if not _has_masks(element):
            return widen(b, _load_first(b, place, count))
        name = f"llvm.masked.load.v16{_SUFFIX[element]}.p0"
        return widen(b, call(b, name, memory, place, _INT(1), lanes_below(b, count), ir.Constant(memory, None)))

    return load, load_part


_SUFFIX = {_FLOAT: "f32", _SHORT: "i16"}


def _has_masks(element: ir.Type) -> bool:
    """Whether the CPU has masked loads and stores; without them LLVM would make a branch for each lane."""
    return cpu.has("avx512vl") or (element == _FLOAT and cpu.has("avx"))


def _load_first(b: ir.IRBuilder, place: Any, count: Any) -> Any:
    """The first `count` of 16 elements, and zeros."""
    memory = place.type.pointee
    result = cgutils.alloca_once(b, memory)
    with b.if_else(_is_whole(b, count)) as (whole, part):
        with whole:
            b.store(b.load(place, align=1), result)
        with part:
            b.store(ir.Constant(memory, None), result)
            _copy_first(b, result, place, count)
    return b.load(result)


def _store_first(b: ir.IRBuilder, place: Any, v: Any, count: Any) -> None:
    """Store the first `count` of 16 elements."""
    with b.if_else(_is_whole(b, count)) as (whole, part):
        with whole:
            b.store(v, place, align=1)
        with part:
            source = cgutils.alloca_once(b, v.type)
            b.store(v, source)
            _copy_first(b, place, source, count)


def _is_whole(b: ir.IRBuilder, count: Any) -> Any:
    return b.icmp_signed(">=", count, _LONG(16))


def _copy_first(b: ir.IRBuilder, to: Any, source: Any, count: Any) -> None:
    memory = to.type.pointee
    size = 4 if memory.element == _FLOAT else 2
    length = b.mul(call(b, "llvm.smax.i64", _LONG, count, _LONG(0)), _LONG(size))
    places = [b.bitcast(p, _BYTE.as_pointer()) for p in (to, source)]
    call(b, "llvm.memcpy.p0.p0.i64", ir.VoidType(), *places, length, _BOOL(0))


load_f32x16, load_f32x16_part = _vector_loads(_FLOAT, float_to_float)
load_f16x16, load_f16x16_part = _vector_loads(_SHORT, half_to_float)
load_bf16x16, load_bf16x16_part = _vector_loads(_SHORT, bf16_to_float)


@define(types.none, types.int64, F32)
def store_f32x16(b: ir.IRBuilder, address: Any, v: Any) -> None:
    """Store 16 float32."""
    b.store(v, pointer(b, address, v.type), align=1)


@define(types.none, types.int64, F32)
def store_f16x16(b: ir.IRBuilder, address: Any, v: Any) -> None:
    """Store 16 float32 as float16."""
    half = float_to_half(b, v)
    b.store(half, pointer(b, address, half.type), align=1)


def _apart(narrow: Emit) -> Any:
    @define(types.none, types.int64, F32, types.int64)
    def store(b: ir.IRBuilder, address: Any, v: Any, stride: Any) -> None:
        v = narrow(b, v)
        for i in range(16):
            at = b.add(address, b.mul(stride, _LONG(i)))
            b.store(b.extract_element(v, _INT(i)), pointer(b, at, v.type.element), align=1)

    return store


store_f32_apart = _apart(float_to_float)
"""Store 16 lanes, `stride` bytes from one to the next."""
store_f16_apart = _apart(float_to_half)


@define(types.none, types.int64, F32, types.int64)
def store_f32x16_part(b: ir.IRBuilder, address: Any, v: Any, count: Any) -> None:
    """Store the first `count` lanes."""
    place = pointer(b, address, v.type)
    if _has_masks(_FLOAT):
        call(b, "llvm.masked.store.v16f32.p0", ir.VoidType(), v, place, _INT(1), lanes_below(b, count))
    else:
        _store_first(b, place, v, count)


@define(I8, types.int64)
def load_i8x32(b: ir.IRBuilder, address: Any) -> Any:
    """Load 32 bytes."""
    return b.load(pointer(b, address, I8.vector), align=1)


def _saturated_i8(b: ir.IRBuilder, x: Any) -> Any:
    """16 integral floats as int32, clamped to the range of int8; NaN becomes 0."""
    # In steps: before AVX-512, LLVM has no vector instructions for a saturating conversion to bytes.
    low, high, zero = (all_f32(limit) for limit in (-128.0, 127.0, 0.0))
    x = b.select(b.fcmp_ordered(">", x, low), x, b.select(b.fcmp_unordered("uno", x, x), zero, low))
    return b.fptosi(b.select(b.fcmp_ordered("<", x, high), x, high), I32.vector)


@define(types.none, types.int64, F32)
def store_f32x16_as_i8(b: ir.IRBuilder, address: Any, x: Any) -> None:
    """Store 16 integral floats as int8, clamped; NaN becomes 0."""
    narrow = ir.VectorType(_BYTE, 16)
    b.store(b.trunc(_saturated_i8(b, x), narrow), pointer(b, address, narrow), align=1)
