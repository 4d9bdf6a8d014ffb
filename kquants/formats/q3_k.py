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

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, SuperBlockScales, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 110, 8, 2
BITS, OFFSET = 3, 4


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = q."""
    low, high = (tile.word(96), tile.word(100)), tile.word(104)
    scales = [low[i % 2] >> 4 * (i // 2) & 0x0F0F0F0F | high >> 2 * i << 4 & 0x30303030 for i in range(4)]
    for j in range(8):
        for half in range(2):
            low_bits, high_bit = tile.packed(32 + 32 * (j // 4) + 16 * half), tile.packed(16 * half)
            yield HalfBlock(j, half, low_bits.bits(2 * (j % 4), 2) | high_bit.bits(j, 1, to=2))
        yield UnitScales(j, scales[j // 2].int16(2 * (j % 2)).less(32))
    yield SuperBlockScales(tile.half(108))
