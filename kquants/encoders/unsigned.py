"""Encoders of formats w = d · q + m with q in 0 … 15 or 0 … 31."""

import numba as nb

from kquants.compiler.decorators import Vector, inline
from kquants.encoders import blocks
from kquants.encoders.lane_ops import smaller_f32
from kquants.encoders.packing import packer
from kquants.encoders.scale_min_search import scale_min_search
from kquants.encoders.scale_search import LARGEST_HALF, inverse_of
from kquants.simd import larger_f32, round_f32, splat_f32, store_f16_apart


def define(name: str, nbytes: int, top: int, nibbles: int, high_bits: int = 0) -> None:
    """Register the encoder of a format with q in 0 … `top`; see `kquants.encoders.packing`."""
    high = nb.float32(top)

    @inline
    def nearest(t: Vector) -> Vector:
        return round_f32(smaller_f32(larger_f32(t, splat_f32(nb.float32(0))), splat_f32(high)))

    @inline
    def code(q: Vector) -> Vector:
        return q

    search = scale_min_search(nearest, top)
    pack = packer(nearest, code, nbytes, nibbles, high_bits)

    @inline
    def encode16(x: int, weights: int, decoded: int, target: int) -> None:
        d, m = search(x, weights, decoded)  # `decoded` serves as the buffer: it is written after the search
        store_f16_apart(target, d, nbytes)
        store_f16_apart(target + 2, m, nbytes)
        pack(x, d, inverse_of(d), m, decoded, target)

    blocks.define(name, nbytes, LARGEST_HALF, encode16)
