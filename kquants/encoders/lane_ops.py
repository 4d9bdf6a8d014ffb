"""Vector operations of the encoders: sixteen blocks side by side, one per lane.

The values of a block lie in one lane of consecutive vectors, a vector per value, so that a search runs for sixteen
blocks at once, with no sum across lanes. A value that the blocks of a super-block share is held by all their lanes:
`across` gives sums and maxima over these lanes.
"""

from collections.abc import Callable
from typing import Any

import numba as nb
from llvmlite import ir
from numba import types

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.vectors import round_to_half
from kquants.simd import (
    F32,
    I8,
    abs_f32,
    add_f32,
    call,
    define,
    div_f32,
    larger_f32,
    load_f32x16,
    mul_f32,
    pointer,
    round_f32,
    shuffle,
    splat_f32,
    sub_f32,
    transposed,
)

_BYTE, _LONG = ir.IntType(8), ir.IntType(64)


# --- memory --------------------------------------------------------------------------------------------


@define(types.none, types.int64, types.int32)
def store_u8(b: ir.IRBuilder, address: Any, value: Any) -> None:
    """Store the lowest byte."""
    b.store(b.trunc(value, _BYTE), pointer(b, address, _BYTE), align=1)


@define(types.none, types.int64, I8)
def store_i8x32(b: ir.IRBuilder, address: Any, v: Any) -> None:
    """Store 32 bytes."""
    b.store(v, pointer(b, address, I8.vector), align=1)


@define(types.none, types.int64, types.int64, types.int64)
def transpose(b: ir.IRBuilder, source: Any, stride: Any, to: Any) -> None:
    """16 rows of 16 float32, `stride` bytes from one to the next, to 16 vectors: vector i holds value i of each row."""
    rows = [b.load(pointer(b, b.add(source, b.mul(stride, _LONG(i))), F32.vector), align=1) for i in range(16)]
    for i, row in enumerate(transposed(b, rows)):
        b.store(row, pointer(b, b.add(to, _LONG(64 * i)), F32.vector), align=1)


# --- lane by lane --------------------------------------------------------------------------------------

smaller_f32 = define(F32, F32, F32)(lambda b, x, y: b.select(b.fcmp_ordered("<", x, y), x, y))
"""The smaller of both, and y where one is NaN."""

choose = define(F32, F32, F32, F32, F32)(lambda b, x, y, then, other: b.select(b.fcmp_ordered("<", x, y), then, other))
"""`then` where x < y, else `other`."""

square_roots = define(F32, F32)(lambda b, x: call(b, "llvm.sqrt.v16f32", F32.vector, x))
"""The square root of each lane, rounded to nearest."""


_TINY = nb.float32(1e-30)
_LEAST_HALF = nb.float32(2.0**-24)


@inline
def all_lanes(value: float) -> Vector:
    """A number in all lanes."""
    return splat_f32(nb.float32(value))


@inline
def negative(x: Vector) -> Vector:
    """0 - x."""
    return sub_f32(all_lanes(0), x)


@inline
def quotient(x: Vector, y: Vector) -> Vector:
    """x / y, but 0 where |y| is at most 1e-30: y is then a sum of zeros."""
    return choose(splat_f32(_TINY), abs_f32(y), div_f32(x, y), all_lanes(0))


@inline
def nearest(x: Vector, lowest: float, highest: float) -> Vector:
    """x rounded to an integer, clamped to lowest … highest."""
    return smaller_f32(larger_f32(round_f32(x), all_lanes(lowest)), all_lanes(highest))


@inline
def stored_scale(x: Vector) -> Vector:
    """x rounded to float16; a value other than 0 does not become 0."""
    size = round_to_half(larger_f32(abs_f32(x), splat_f32(_LEAST_HALF)))
    return choose(all_lanes(0), x, size, choose(x, all_lanes(0), negative(size), all_lanes(0)))


@inline
def scale_for(largest: Vector, steps: int, margin: int) -> Vector:
    """The float16 d for which `largest` (at least 0) is about steps - margin times d, and at most steps times d."""
    d = stored_scale(mul_f32(largest, all_lanes(1 / (steps - margin))))
    # Denormal float16 are far apart: rounded down, d may be too small by more than the margin.
    return choose(mul_f32(d, all_lanes(steps)), largest, stored_scale(add_f32(d, splat_f32(_LEAST_HALF))), d)


def largest_of(n: int) -> Any:
    """`largest(x)`: the largest magnitude of the n values of each block."""

    @inline
    def largest(x: int) -> Vector:
        most = all_lanes(0)
        for i in range(0, 64 * n, 64):
            most = larger_f32(abs_f32(load_f32x16(x + i)), most)
        return most

    return largest


# --- across lanes --------------------------------------------------------------------------------------


def across(group: int) -> tuple[Any, Any]:
    """(sum, maximum) over each `group` lanes, 8 or 16; all lanes of a group hold the result."""

    def butterfly(combine: Callable[[ir.IRBuilder, Any, Any], Any]) -> Any:
        def emit(b: ir.IRBuilder, x: Any) -> Any:
            distance = group // 2
            while distance:
                x = combine(b, x, shuffle(b, x, x, [i ^ distance for i in range(16)]))
                distance //= 2
            return x

        return define(F32, F32)(emit)

    return (
        butterfly(lambda b, x, y: b.fadd(x, y)),
        butterfly(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y)),
    )
