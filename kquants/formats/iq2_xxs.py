"""IQ2_XXS: super-blocks of 256 weights in 66 bytes: eight blocks of 32 with a 4-bit scale each, w = d / 8 ·
(2 scale + 1) · ± magnitude, and eight magnitudes in a point of a grid of 256 (ggml: block_iq2_xxs).

    byte  0       2                                                           66
          [ d f16 | 8 blocks of 8 bytes: points: 4 bytes, signs, scale: uint32 ]

        point p of block j    byte 2 + 8j + p;  p = 0 … 3
        signs of block j      bits 7p … 7p + 6 of the word at byte 6 + 8j are those of weights 8p … 8p + 6, set where
                              one is negative; their parity is that of weight 8p + 7: of the eight, an even number is
                              negative
        scale of block j      bits 31-28 of that word
"""

from collections.abc import Iterator

from kquants.formats.grid_points import Points, odd_scales, signs_with_parity
from kquants.formats.grid_rows import Indices, scales_in_words, unpacked_row
from kquants.formats.grid_weights import grid_weights
from kquants.formats.grids.iq2_xxs import IQ2_XXS
from kquants.formats.packed_bytes import Floats, Words
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SIGNED, HalfBlock, SuperBlockScales, UnitScales, Unpacked
from kquants.formats.weight_row import UnpackedRow, WeightRow
from kquants.simd import shuffle

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 66, 8, 1
BITS, OFFSET = 6, SIGNED


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = weight + SIGNED_OFFSET."""
    for pair in range(4):
        words = [tile.word(6 + 8 * j) for j in (2 * pair, 2 * pair + 1)]
        points = [Points(tile.word(2 + 16 * pair + 8 * i), signs_with_parity(word)) for i, word in enumerate(words)]
        for i, u in enumerate(grid_weights(IQ2_XXS, points)):
            yield HalfBlock(2 * pair + i // 2, i % 2, u)
        yield UnitScales(pair, odd_scales(words[0] >> 28 | words[1] >> 28 << 16))
    yield SuperBlockScales(tile.half(0) * 0.125)


def unpack_row(row: WeightRow) -> UnpackedRow:
    """What a super-block of a row holds."""
    low, high = (row.words(offset).value for offset in (2, 34))
    words = Words(row.b, shuffle(row.b, low, high, range(1, 16, 2)))
    return unpacked_row(row, IQ2_XXS, Indices(row.at(2), 8), signs_with_parity(words).bytes(), scales_in_words(words))


def row_factors(tile: Tile) -> Floats:
    """d / 8 of each row."""
    return tile.halves(0) * 0.125
