"""A block's 32 weights as float32: what dequantization, embedding and products over float32 are made from."""

from typing import Any

import numba as nb

from kquants.decorators import Vector, inline
from kquants.simd import high_i8_to_f32, low_i8_to_f32, mul_f32, splat_f32, sub_f32


@inline
def scaled(q: Vector, scale: int, minimum: int, d: float, dmin: float) -> Vector:
    """d · scale · q - dmin · minimum in 16 lanes, rounded in this order (that of gguf.quants)."""
    offset = splat_f32(dmin * nb.float32(minimum))
    return sub_f32(mul_f32(splat_f32(d * nb.float32(scale)), q), offset)


def weights_of(block: Any) -> Any:
    """`weights(row, i)`, the two halves of the i-th 32 weights of a row, from a format's `block(row, i)`."""

    @inline
    def weights(row: int, i: int) -> tuple[Vector, Vector]:
        q, low, high, minimum, d, dmin = block(row, i)
        first = scaled(low_i8_to_f32(q), low, minimum, d, dmin)
        return first, scaled(high_i8_to_f32(q), high, minimum, d, dmin)

    return weights
