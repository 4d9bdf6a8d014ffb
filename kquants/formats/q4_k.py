"""Q4_K: super-blocks of 256 weights in 144 bytes: eight blocks of 32 with a 6-bit scale and a 6-bit minimum
each, w = d · scale · q - dmin · minimum, q in 0 … 15 (ggml: block_q4_K).

    byte  0       2          4                 16                          144
          [ d f16 | dmin f16 | scales, minima  | q: 4 groups of 32 bytes ]

    group g   low nibbles are block 2g, high nibbles block 2g + 1
    scales    bytes 4 … 15, for block j = 0 … 3:

        byte 4 + j    | scale j+4, bits 5-4 |   scale j, bits 5-0    |
        byte 8 + j    | min j+4, bits 5-4   |   min j, bits 5-0      |
        byte 12 + j   | min j+4, bits 3-0  | scale j+4, bits 3-0     |
"""

import numba as nb

from kquants.decorators import Block, inline
from kquants.simd import and_i8, load_f16, load_i8x32, load_u8, mul_f32, shift_right_i8, splat_f32, store_f32x16
from kquants.tiles import (
    Tile,
    and_i32,
    gather_f16,
    gather_i32,
    load_rows,
    nibbles,
    or_i32,
    shift_left_i32,
    shift_right_i32,
    to_f32,
)

BLOCK_BYTES = 144


@inline
def scale_and_minimum(b: int, j: int) -> tuple[int, int]:
    """The 6-bit scale and minimum of block `j` of the super-block at `b`."""
    if j < 4:
        return load_u8(b + 4 + j) & 63, load_u8(b + 8 + j) & 63
    low = load_u8(b + 8 + j)
    scale = (low & 15) | (load_u8(b + j) >> 6 << 4)
    minimum = (low >> 4) | (load_u8(b + 4 + j) >> 6 << 4)
    return scale, minimum


@inline
def block(row: int, i: int) -> Block:
    """Block `i` of the row: (q, scale of its first half, of its second, minimum, d, dmin)."""
    b, j = row + (i >> 3) * BLOCK_BYTES, i & 7
    scale, minimum = scale_and_minimum(b, j)
    nibbles = load_i8x32(b + 16 + (j >> 1) * 32)
    q = and_i8(shift_right_i8(nibbles, (j & 1) * 4), 15)
    return q, nb.int32(scale), nb.int32(scale), nb.int32(minimum), load_f16(b), load_f16(b + 2)


@inline
def tile_scales(w: int, stride: int, i: int, scales: int) -> None:
    """Write d · scale and -dmin · minimum of the eight blocks of super-block `i` of 16 rows."""
    b = w + i * BLOCK_BYTES
    d = gather_f16(b, stride)
    minus_dmin = mul_f32(gather_f16(b + 2, stride), splat_f32(nb.float32(-1)))
    scale, minimum, low = gather_i32(b + 4, stride), gather_i32(b + 8, stride), gather_i32(b + 12, stride)
    for half in range(2):
        if half == 0:
            s, m = and_i32(scale, 0x3F3F3F3F), and_i32(minimum, 0x3F3F3F3F)
        else:
            s_high = shift_left_i32(and_i32(shift_right_i32(scale, 6), 0x03030303), 4)
            m_high = shift_left_i32(and_i32(shift_right_i32(minimum, 6), 0x03030303), 4)
            s = or_i32(and_i32(low, 0x0F0F0F0F), s_high)
            m = or_i32(and_i32(shift_right_i32(low, 4), 0x0F0F0F0F), m_high)
        for j in range(4):
            to = scales + (4 * half + j) * 128
            store_f32x16(to, mul_f32(d, to_f32(and_i32(shift_right_i32(s, 8 * j), 255))))
            store_f32x16(to + 64, mul_f32(minus_dmin, to_f32(and_i32(shift_right_i32(m, 8 * j), 255))))


@inline
def tile_weights(w: int, stride: int, i: int, j: int) -> Tile:
    """Block `j` of super-block `i` of 16 rows."""
    return nibbles(load_rows(w + i * BLOCK_BYTES + 16 + (j >> 1) * 32, stride), (j & 1) * 4)
