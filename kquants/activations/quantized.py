"""Activations quantized for formats without super-blocks.

Rows of n float32 (n a multiple of 32) become groups of 256 int8, and for every 32 of them a scale and what weights
with an offset or a minimum need. A group of all rows lies side by side, so that a matmul finds them at constant
distances:

    [n / 256, rounded up][rows] of    byte  0                 256                                                 384
                                            [ q0 q1 … q255    | block 0: d f32, s f32, -16h i32, -128o i32 | … × 8 ]

with d = max|x| / 127 over the block, q = x · (127 / max|x|) rounded to even, h the sum of the q of its first half, o
that of all of them, and s = d · o. A block with an Inf or NaN has d = NaN, so that the result shows it; one below 1e-36
has q = 0.
"""

import math

import numba as nb
from llvmlite import ir
from numba import types

from kquants.activations.halves import largest_of_blocks, of_both, store_scaled
from kquants.compiler.decorators import inline
from kquants.formats.packed_bytes import Value
from kquants.layout import X_BLOCK_BYTES, X_GROUP
from kquants.simd import (
    F32,
    I32,
    abs_f32,
    all_f32,
    at,
    call,
    define,
    largest_f32,
    load,
    load_f32x16,
    max_f32,
    mul_f32,
    pointer,
    reduce_each,
    round_f32,
    shuffle,
    splat_f32,
    store_f32,
    store_f32x16_as_i8,
    store_i32,
    sum_f32,
)

D_SUM, MINUS_HALF_SUM, MINUS_SUM = 4, 8, 12
"""Where things lie in what belongs to a block, after d."""

HALF_SUM_FACTOR, SUM_FACTOR = 16, 128
"""By which the sums there are multiplied: offsets of weights (`kquants.matmul.blocks`)."""

_SMALLEST = 1e-36  # 127 / max|x| overflows below 3.8e-37


@inline
def quantize_block(x: int, q: int, record: int) -> None:
    """Quantize the 32 float32 at x to int8 at q, and write what belongs to them."""
    low, high = load_f32x16(x), load_f32x16(x + 64)
    largest = largest_f32(max_f32(abs_f32(low), abs_f32(high)))
    inverse = nb.float32(127) / largest if largest >= nb.float32(_SMALLEST) else nb.float32(0)
    low = round_f32(mul_f32(low, splat_f32(inverse)))
    high = round_f32(mul_f32(high, splat_f32(inverse)))
    store_f32x16_as_i8(q, low)
    store_f32x16_as_i8(q + 16, high)
    # The largest value passes over NaN, but the sums keep it (and Inf · 0 is NaN, too). Of nothing but -0 they are 0.
    first, second = sum_f32(low), sum_f32(high)
    total = first + second + nb.float32(0)
    whole = total == total
    d = largest / nb.float32(127) if whole else nb.float32(math.nan)
    store_f32(record, d)
    store_f32(record + D_SUM, d * total)
    store_i32(record + MINUS_HALF_SUM, HALF_SUM_FACTOR * nb.int32(-first) if whole else nb.int32(0))
    store_i32(record + MINUS_SUM, SUM_FACTOR * nb.int32(-total) if whole else nb.int32(0))


@define(types.none, types.int64, types.int64)
def quantize_group(b: ir.IRBuilder, x: Value, group: Value) -> None:
    """Quantize 256 float32 at x to the group at an address: eight blocks at once.

    All has the same bits as one by one, but for the int8 of a block with NaN or Inf, which mean nothing.
    """
    values = [load(b, at(b, x, 64 * i), F32.vector) for i in range(16)]
    sizes = [call(b, "llvm.fabs.v16f32", F32.vector, v) for v in values]
    largest = largest_of_blocks(b, sizes)
    is_small = b.fcmp_ordered("<", largest, all_f32(_SMALLEST))
    inverse = b.select(is_small, all_f32(0.0), b.fdiv(all_f32(127.0), largest))
    half_sums = reduce_each(b, store_scaled(b, values, inverse, group), b.fadd)
    sums = of_both(b, half_sums, b.fadd)
    # The largest value may pass over NaN, but the sums keep it (and Inf · 0 is NaN, too).
    is_nan = b.fcmp_unordered("uno", sums, sums)
    d = b.select(is_nan, all_f32(math.nan), b.fdiv(largest, all_f32(127.0)))
    numbers = b.select(is_nan, all_f32(0.0), half_sums)
    halves, wholes = (
        b.fptosi(b.fmul(v, all_f32(-factor)), I32.vector)
        for v, factor in ((numbers, HALF_SUM_FACTOR), (of_both(b, numbers, b.fadd), SUM_FACTOR))
    )
    # What belongs to block i is in lanes 2i of four vectors, and goes side by side.
    both = [lane for i in range(0, 16, 2) for lane in (i, 16 + i)]
    floats, ints = shuffle(b, d, b.fmul(d, sums), both), b.bitcast(shuffle(b, halves, wholes, both), F32.vector)
    for half in (0, 8):
        records = shuffle(b, floats, ints, [half + lane for i in range(0, 8, 2) for lane in (i, i + 1, 16 + i, 17 + i)])
        b.store(records, pointer(b, at(b, group, X_GROUP + 8 * half), F32.vector), align=1)


@inline
def quantize_row(x: int, n: int, row: int) -> None:
    """Quantize n float32 at x to n int8 and then what belongs to each 32 of them, at `row`."""
    for k in range(0, n, 32):
        quantize_block(x + 4 * k, row + k, row + n + k // 32 * X_BLOCK_BYTES)
