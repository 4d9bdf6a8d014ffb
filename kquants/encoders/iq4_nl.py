"""IQ4_NL: w = d · v, v one of sixteen values; they and the layout are in `kquants.formats.iq4_nl`."""

from itertools import pairwise

import numba as nb

from kquants.decorators import Vector, inline
from kquants.encoders.signed import define_levels
from kquants.encoders.vectors import where_greater
from kquants.formats.iq4_nl import BLOCK_BYTES, VALUES
from kquants.simd import add_f32, splat_f32

_LOWEST = nb.float32(VALUES[0])
_MIDDLES = tuple(nb.float32((low + high) / 2) for low, high in pairwise(VALUES))
_STEPS = tuple(nb.float32(high - low) for low, high in pairwise(VALUES))


@inline
def nearest(t: Vector) -> Vector:
    """The value next to t."""
    v, zero = splat_f32(_LOWEST), splat_f32(nb.float32(0))
    for middle, step in zip(_MIDDLES, _STEPS):  # noqa: B905 - Numba has no strict zip
        v = add_f32(v, where_greater(t, splat_f32(middle), splat_f32(step), zero))
    return v


@inline
def code(v: Vector) -> Vector:
    """The index of a value."""
    index, zero = splat_f32(nb.float32(0)), splat_f32(nb.float32(0))
    for middle in _MIDDLES:
        index = add_f32(index, where_greater(v, splat_f32(middle), splat_f32(nb.float32(1)), zero))
    return index


define_levels("iq4_nl", BLOCK_BYTES, nearest, code, lowest=VALUES[0], highest=VALUES[-1], nibbles=2)
