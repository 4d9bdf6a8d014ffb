"""Q6_K: super-blocks of 256 weights in 210 bytes: sixteen blocks of 16 with an int8 scale each,
w = d · scale · (q - 32), q in 0 … 63 (ggml: block_q6_K).

    byte  0                    128               192                    208     210
          [ ql: q, bits 3-0    | qh: q, bits 5-4 | scales: 16 × int8    | d f16 ]

    each half h = 0, 1 of the super-block has 64 bytes of ql, 32 of qh, and four blocks j of 32 weights:

        q of block j, weight l   low bits    ql[64h + 32 (j mod 2) + l]   low nibble for j < 2, else high
                                 high bits   qh[32h + l]                  bits 2j+1, 2j
        scales of block j        8h + 2j for l < 16, 8h + 2j + 1 for the rest
"""

import numba as nb

from kquants.decorators import Block, inline
from kquants.simd import (
    add_i8,
    and_i8,
    load_f16,
    load_i8,
    load_i8x32,
    mul_f32,
    or_i8,
    shift_left_i8,
    shift_right_i8,
    store_f32x16,
)
from kquants.tiles import (
    Tile,
    gather_f16,
    gather_i32,
    high_pairs,
    load_rows,
    merge,
    nibbles,
    shift_left_i32,
    shift_signed_i32,
    to_f32,
)

BLOCK_BYTES = 210


@inline
def block(row: int, i: int) -> Block:
    """Block `i` of the row: (q, scale of its first half, of its second, minimum, d, dmin)."""
    b, h, j = row + (i >> 3) * BLOCK_BYTES, (i >> 2) & 1, i & 3
    low = load_i8x32(b + 64 * h + 32 * (j & 1))
    high = load_i8x32(b + 128 + 32 * h)
    low = and_i8(shift_right_i8(low, (j >> 1) * 4), 15)
    high = shift_left_i8(and_i8(shift_right_i8(high, 2 * j), 3), 4)
    scales = b + 192 + 8 * h + 2 * j
    q = add_i8(or_i8(low, high), -32)
    return q, load_i8(scales), load_i8(scales + 1), nb.int32(0), load_f16(b + 208), nb.float32(0)


@inline
def tile_scales(w: int, stride: int, i: int, scales: int) -> None:
    """Write d · scale of the sixteen halves of super-block `i` of 16 rows."""
    b = w + i * BLOCK_BYTES
    d = gather_f16(b + 208, stride)
    for group in range(4):
        four = gather_i32(b + 192 + 4 * group, stride)
        for j in range(4):
            scale = shift_signed_i32(shift_left_i32(four, 24 - 8 * j), 24)
            store_f32x16(scales + (4 * group + j) * 64, mul_f32(d, to_f32(scale)))


@inline
def tile_weights(w: int, stride: int, i: int, j: int) -> Tile:
    """Block `j` of super-block `i` of 16 rows, its weights plus 32."""
    b, h, k = w + i * BLOCK_BYTES, j >> 2, j & 3
    low = load_rows(b + 64 * h + 32 * (k & 1), stride)
    high = load_rows(b + 128 + 32 * h, stride)
    return merge(nibbles(low, (k >> 1) * 4), high_pairs(high, 2 * k))
