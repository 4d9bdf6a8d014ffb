"""Packing of 16 blocks of n codes of four or five bits, a block in each lane: the layouts of ggml's blocks of 32, and
of 16 in NVFP4.

nibbles   byte k holds the low four bits of codes k and k + n/2
high bits bit k of a 32-bit word is bit 4 of code k, of 32
"""

from typing import Any

import numba as nb

from kquants.compiler.decorators import Vector, inline
from kquants.encoders.vectors import (
    and_i32,
    or_i32,
    shift_left_i32,
    shift_right_i32,
    store_i32_apart,
    whole_i32,
    zero_i32,
)
from kquants.simd import add_f32, load_f32x16, mul_f32, store_f32x16, sub_f32


def packer(nearest: Any, code: Any, nbytes: int, nibbles: int, high_bits: int = 0, n: int = 32) -> Any:
    """`pack(x, d, inverse, m, decoded, target)`: encode 16 blocks, d · v + m, whose scales are known.

    `nearest(t)` is the level for x / d, `code(v)` its code as float32, `nibbles` and `high_bits` the bytes of a
    block of `nbytes` where they begin (0 for high bits: there are none).
    """
    half = n // 2

    @inline
    def coded(x: int, d: Vector, inverse: Vector, m: Vector, decoded: int) -> Vector:
        v = nearest(mul_f32(sub_f32(load_f32x16(x), m), inverse))
        store_f32x16(decoded, add_f32(mul_f32(d, v), m))
        return whole_i32(code(v))

    @inline
    def pack(x: int, d: Vector, inverse: Vector, m: Vector, decoded: int, target: int) -> None:
        high = zero_i32()
        for first in range(0, half, 4):
            word = zero_i32()
            for i in range(4):
                k = first + i
                a = coded(x + 64 * k, d, inverse, m, decoded + 64 * k)
                b = coded(x + 64 * (k + half), d, inverse, m, decoded + 64 * (k + half))
                byte = or_i32(and_i32(a, nb.int32(15)), shift_left_i32(and_i32(b, nb.int32(15)), nb.int32(4)))
                word = or_i32(word, shift_left_i32(byte, nb.int32(8 * i)))
                high = or_i32(high, shift_left_i32(shift_right_i32(a, nb.int32(4)), nb.int32(k)))
                high = or_i32(high, shift_left_i32(shift_right_i32(b, nb.int32(4)), nb.int32(k + 16)))
            store_i32_apart(target + nibbles + first, word, nbytes)
        if high_bits != 0:
            store_i32_apart(target + high_bits, high, nbytes)

    return pack
