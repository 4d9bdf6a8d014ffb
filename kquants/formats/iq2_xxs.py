"""IQ2_XXS: super-blocks of 256 weights in 66 bytes: eight blocks of 32 with a 4-bit scale each, w = d / 8 ·
(2 scale + 1) · ± magnitude, and eight magnitudes in a point of a grid of 256 (ggml: block_iq2_xxs).

    byte  0       2                                                           66
          [ d f16 | 8 blocks of 8 bytes: points: 4 bytes, signs, scale: uint32 ]

        point p of block j    byte 2 + 8j + p;  p = 0 … 3
        signs of block j      bits 7p … 7p + 6 of the word at byte 6 + 8j are weights 8p … 8p + 6, set where
                              one is negative; their parity is weight 8p + 7: an even number of eight is negative
        scale of block j      bits 31-28 of that word
"""

from collections.abc import Iterator

from kquants.formats.grid_weights import Indices, grid_weights, odd_scales, signs_with_parity
from kquants.formats.grids.iq2_xxs import IQ2_XXS
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SIGNED, HalfBlock, SuperBlockScales, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 66, 8, 1
BITS, OFFSET = 6, SIGNED


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = weight + SIGNED_OFFSET."""
    for j in range(8):
        word = tile.word(6 + 8 * j)
        for half, u in enumerate(grid_weights(IQ2_XXS, Indices(tile.word(2 + 8 * j)), signs_with_parity(word))):
            yield HalfBlock(j, half, u)
        if j % 2:
            yield UnitScales(j // 2, odd_scales(tile.word(8 * j - 2) >> 28 | word >> 28 << 16))
    yield SuperBlockScales(tile.half(0) * 0.125)
