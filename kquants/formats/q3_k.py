"""Q3_K: super-blocks of 256 weights in 110 bytes: sixteen blocks of 16 with a 6-bit scale each,
w = d · (scale - 32) · (q - 4), q in 0 … 7 (ggml: block_q3_K).

    byte  0                32                96                    108     110
          [ qh: q, bit 2   | ql: q, bits 1-0 | scales: 12 bytes    | d f16 ]

        q of weight l of the   low bits   ql[32 (j / 4) + l], bits 2 (j mod 4) + 1, + 0
        j-th 32 weights        bit 2      qh[l], bit j
        scale of block s       low bits   byte 96 + s mod 8, low nibble for s < 8, else high
                               high bits  byte 104 + s mod 4, bits 2 (s / 4) + 1, + 0
"""

from collections.abc import Iterator

import numba as nb

from kquants.decorators import Block, inline
from kquants.pieces import Part, Piece, Scales, Whole
from kquants.simd import add_i8, and_i8, load_f16, load_i8x32, load_u8, or_i8, shift_left_i8, shift_right_i8
from kquants.tiles import Tile

BLOCK_BYTES, BLOCKS, SPANS = 110, 8, 2
BITS, OFFSET = 3, 4


@inline
def _scale(b: int, s: int) -> int:
    """The scale of block `s` of the super-block at `b`, -32 … 31."""
    low = load_u8(b + 96 + (s & 7)) >> (s >> 3) * 4 & 15
    high = load_u8(b + 104 + (s & 3)) >> (s >> 2) * 2 & 3
    return (low | high << 4) - 32


@inline
def block(row: int, i: int) -> Block:
    """Block `i` of the row: (q, scale of its first half, of its second, minimum, d, dmin)."""
    b, j = row + (i >> 3) * BLOCK_BYTES, i & 7
    low = and_i8(shift_right_i8(load_i8x32(b + 32 + 32 * (j >> 2)), 2 * (j & 3)), 3)
    high = shift_left_i8(and_i8(shift_right_i8(load_i8x32(b), j), 1), 2)
    q = add_i8(or_i8(low, high), -4)
    first, second = nb.int32(_scale(b, 2 * j)), nb.int32(_scale(b, 2 * j + 1))
    return q, first, second, nb.int32(0), load_f16(b + 108), nb.float32(0)


def unpack(tile: Tile) -> Iterator[Piece]:
    """What a super-block of a tile holds, piece by piece: u = q."""
    low, high = (tile.word(96), tile.word(100)), tile.word(104)
    scales = [low[i % 2] >> 4 * (i // 2) & 0x0F0F0F0F | high >> 2 * i << 4 & 0x30303030 for i in range(4)]
    for j in range(8):
        for half in range(2):
            low_bits, high_bit = tile.quads(32 + 32 * (j // 4) + 16 * half), tile.quads(16 * half)
            yield Part(j, half, low_bits.bits(2 * (j % 4), 2) | high_bit.bits(j, 1, to=2))
        yield Scales(j, scales[j // 2].shorts(2 * (j % 2)).less(32))
    yield Whole(tile.half(108))
