"""Q2_K: super-blocks of 256 weights in 84 bytes: sixteen blocks of 16 with a 4-bit scale and a 4-bit minimum
each, w = d · scale · q - dmin · minimum, q in 0 … 3 (ggml: block_q2_K).

    byte  0                     16                80      82         84
          [ scales: 16 bytes    | q: 2 × 32 bytes | d f16 | dmin f16 ]

    scales    low nibble of byte s is the scale of block s, high nibble its minimum
    q         weight l of the j-th 32 weights (blocks 2j, 2j + 1): byte 16 + 32 (j / 4) + l, bits 2 (j mod 4) + 1, + 0
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SuperBlockScales, UnitScales, Unpacked, half_of_bits

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 84, 8, 2
BITS, OFFSET = 2, 0


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = q."""
    packed = tile.packed(0)
    scales, minima = packed.bits(0, 4), packed.bits(4, 4)
    for j in range(8):
        for half in range(2):
            q = tile.packed(16 + 32 * (j // 4) + 16 * half)
            yield half_of_bits(j, half, q, 2 * (j % 4), 2)
        k, i = divmod(2 * j, 4)
        yield UnitScales(j, scales.word(k).int16(i), minima.word(k).int16(i))
    yield SuperBlockScales(tile.half(80), -tile.half(82))
