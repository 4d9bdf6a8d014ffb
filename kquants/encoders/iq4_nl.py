"""IQ4_NL: w = d · v, where v is one of sixteen values; these and the layout are in `kquants.formats.iq4_nl`."""

from typing import Any

import numba as nb
from llvmlite import ir
from numba import types

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.lane_ops import choose, smaller_f32
from kquants.encoders.signed import define_levels
from kquants.formats.iq4_nl import BLOCK_BYTES, VALUES
from kquants.simd import F32, I8_64, I32, abs_f32, add_f32, as_tuple, define, fma_f32, larger_f32, look_up, splat_f32

# A parabola that maps the midpoints of adjacent values to numbers about one apart (within 0.07), so that the integral
# part of a mapped value is the index of a value next to it.
_SLOPE, _BEND, _SHIFT = nb.float32(0.0895), nb.float32(-0.00023), nb.float32(7.839)
_LOWEST, _HIGHEST = nb.float32(VALUES[0]), nb.float32(VALUES[-1] - 1)  # a little lower, so that the index is at most 14


@define(types.UniTuple(F32, 3), F32)
def _around(b: ir.IRBuilder, place: Any) -> Any:
    """(i, value i, value i + 1), where i in 0 … 14 is the integral part of a place on the parabola."""

    def every(n: int) -> Any:
        return ir.Constant(I32.vector, [n] * 16)

    i = b.fptosi(place, I32.vector)
    both = b.add(b.mul(i, every(0x101)), every(0x100))  # i and i + 1, in two bytes: one look-up for both
    found = b.bitcast(look_up(b, VALUES, b.bitcast(both, I8_64.vector)), I32.vector)
    low, high = (b.ashr(b.shl(found, every(up)), every(24)) for up in (24, 16))
    return as_tuple(b, [b.sitofp(v, F32.vector) for v in (i, low, high)])


@inline
def _adjacent_values(t: Vector) -> tuple[Vector, Vector, Vector]:
    """(i, value i, value i + 1); the value nearest to t is one of the two."""
    t = smaller_f32(larger_f32(t, splat_f32(_LOWEST)), splat_f32(_HIGHEST))
    return _around(fma_f32(t, fma_f32(abs_f32(t), splat_f32(_BEND), splat_f32(_SLOPE)), splat_f32(_SHIFT)))


@inline
def nearest(t: Vector) -> Vector:
    """The value nearest to t."""
    _, low, high = _adjacent_values(t)
    return choose(add_f32(low, high), add_f32(t, t), high, low)


@inline
def code(v: Vector) -> Vector:
    """The index of a value."""
    i, low, high = _adjacent_values(v)
    return choose(add_f32(low, high), add_f32(v, v), add_f32(i, splat_f32(nb.float32(1))), i)


define_levels("iq4_nl", BLOCK_BYTES, nearest, code, lowest=VALUES[0], highest=VALUES[-1], nibbles=2)
