"""Quantized activations: what quantized weights are multiplied with.

A row of n float32 (n a multiple of 32) becomes n int8, and for every 32 of them a scale and what weights with an
offset or a minimum need:

    byte  0               n                                                  n + 5n/8
          [ q0 q1 … qn-1 | block 0: d f32, s f32, -sum i32, -sum0, -sum1 i32 | …  ]

with d = max|x| / 127 over the block, q = x · (127 / max|x|) rounded to even, sum0 and sum1 the sums
of the first and the last 16 q, sum both, and s = d · sum.
A block with an Inf or NaN has d = NaN, so that the result shows it; one below 1e-36 has q = 0. One scale per 32
values and not per 256 (as llama.cpp's Q8_K has it) about halves the distance of Q4_K and Q6_K logits
from the exact ones.
"""

import math

import numba as nb

from kquants.decorators import inline
from kquants.layout import QUANTIZED_BLOCK_BYTES
from kquants.simd import (
    abs_f32,
    largest_f32,
    load_f32x16,
    max_f32,
    mul_f32,
    round_f32,
    splat_f32,
    store_f32,
    store_f32x16_as_i8,
    store_i32,
    sum_f32,
)

BLOCK_BYTES = QUANTIZED_BLOCK_BYTES
_NAN = nb.float32(math.nan)
_SMALLEST = nb.float32(1e-36)  # 127 / max|x| overflows below 3.8e-37


@inline
def quantize(x: int, start: int, stop: int, n: int, target: int) -> None:
    """Quantize values `start` … `stop` (multiples of 32) of the n float32 at `x` into the row at `target`."""
    for k in range(start, stop, 32):
        low, high = load_f32x16(x + 4 * k), load_f32x16(x + 4 * k + 64)
        largest = largest_f32(max_f32(abs_f32(low), abs_f32(high)))
        scale = target + n + k // 32 * BLOCK_BYTES
        inverse = nb.float32(127) / largest if largest >= _SMALLEST else nb.float32(0)
        low = round_f32(mul_f32(low, splat_f32(inverse)))
        high = round_f32(mul_f32(high, splat_f32(inverse)))
        store_f32x16_as_i8(target + k, low)
        store_f32x16_as_i8(target + k + 16, high)
        # The largest value passes over NaN, but the sums keep it (and Inf · 0 is NaN, too).
        first, second = sum_f32(low), sum_f32(high)
        total = first + second
        whole = total == total
        d = largest / nb.float32(127) if whole else _NAN
        store_f32(scale, d)
        store_f32(scale + 4, d * total)
        store_i32(scale + 8, nb.int32(-total) if whole else nb.int32(0))
        store_i32(scale + 12, nb.int32(-first) if whole else nb.int32(0))
        store_i32(scale + 16, nb.int32(-second) if whole else nb.int32(0))
