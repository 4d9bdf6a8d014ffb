"""TQ2_0: super-blocks of 256 weights in 66 bytes, w = d · (q - 1), q in 0 … 3, of which encoders use 0 … 2: ternary
weights (ggml: block_tq2_0).

    byte  0                     64      66
          [ q: 2 × 32 bytes     | d f16 ]

    weight l of the j-th 32 weights    byte 32 (j / 4) + l, bits 2 (j mod 4) + 1, + 0
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SuperBlockScales, UnitScales, Unpacked, half_of_bits

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 66, 8, 1
BITS, OFFSET = 2, 1


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = q. All scales are 1."""
    for j in range(8):
        for half in range(2):
            yield half_of_bits(j, half, tile.packed(32 * (j // 4) + 16 * half), 2 * (j % 4), 2)
        if j % 2:
            yield UnitScales(j // 2, tile.int16s(1))
    yield SuperBlockScales(tile.halves(64))
