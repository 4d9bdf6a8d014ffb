"""IQ4_XS: super-blocks of 256 weights in 136 bytes: eight blocks of 32 with a 6-bit scale each,
w = d · (scale - 32) · value[q], q in 0 … 15, and the values of IQ4_NL (ggml: block_iq4_xs).

    byte  0       2                      4                      8                              136
          [ d f16 | scales, bits 5-4: LE | scales, bits 3-0     | q: 8 blocks of 16 bytes      ]

        scale of block j            low bits   byte 4 + j / 2, low nibble for even j, else high
                                    high bits  bits 2j + 1, 2j of the 16 bits at byte 2
        q of block j, byte l of it  low nibble is weight l, high nibble weight l + 16
"""

from collections.abc import Iterator

from kquants.formats.iq4_nl import CODES
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SIGNED, HalfBlock, SuperBlockScales, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 136, 8, 1
BITS, OFFSET = 7, SIGNED


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = value + SIGNED_OFFSET."""
    high, low = tile.word(2), tile.word(4)
    for j in range(8):
        q = tile.packed(8 + 16 * j)
        for half in range(2):
            yield HalfBlock(j, half, q.lookup(CODES, 4 * half))
        if j % 2:
            four, two = low >> 4 * (j - 1) & 255, high >> 2 * (j - 1) & 15
            bits = four & 15 | (four & 240) << 12 | (two & 3) << 4 | (two & 12) << 18
            yield UnitScales(j // 2, bits.less(32))
    yield SuperBlockScales(tile.half(0))
