"""Encoders of formats w = d · v with 16 or 32 levels v of both signs."""

from typing import Any

import numba as nb

from kquants.compiler.decorators import Vector, inline
from kquants.encoders import blocks
from kquants.encoders.lane_ops import smaller_f32
from kquants.encoders.packing import packer
from kquants.encoders.scale_search import LARGEST_HALF, inverse_of, scale_search
from kquants.simd import add_f32, larger_f32, round_f32, splat_f32, store_f16_apart

_NEAR = (0.85, 0.89, 0.93, 0.97, 1.01, 1.05, 1.1, 1.17, 1.25, 1.4)
"""Levels to try for the largest weight, as parts of the outermost level of either sign. Those far beyond 1 serve blocks
whose largest weight has little importance."""


def define(name: str, nbytes: int, lowest: int, nibbles: int, high_bits: int = 0) -> None:
    """Register the encoder of a format with all integers from `lowest` to -1 - `lowest`."""
    low, high = nb.float32(lowest), nb.float32(-1 - lowest)

    @inline
    def nearest(t: Vector) -> Vector:
        return round_f32(smaller_f32(larger_f32(t, splat_f32(low)), splat_f32(high)))

    @inline
    def code(v: Vector) -> Vector:
        return add_f32(v, splat_f32(-low))

    define_levels(name, nbytes, nearest, code, lowest, -1 - lowest, nibbles, high_bits)


def define_levels(
    name: str, nbytes: int, nearest: Any, code: Any, lowest: int, highest: int, nibbles: int, high_bits: int = 0
) -> None:
    """Register the encoder of a format with levels from `lowest` to `highest`; see `kquants.encoders.packing`."""
    starts = tuple(level * near for level in (lowest, highest) for near in _NEAR)
    search = scale_search(nearest, starts)
    pack = packer(nearest, code, nbytes, nibbles, high_bits)

    @inline
    def encode16(x: int, weights: int, decoded: int, target: int) -> None:
        d = search(x, weights)
        store_f16_apart(target, d, nbytes)
        pack(x, d, inverse_of(d), splat_f32(nb.float32(0)), decoded, target)

    blocks.define(name, nbytes, highest * LARGEST_HALF, encode16)
