"""IQ3_XXS: super-blocks of 256 weights in 98 bytes: eight blocks of 32 with a 4-bit scale each, w = d / 4 ·
(2 scale + 1) · ± magnitude, and four magnitudes in a point of a grid of 256 (ggml: block_iq3_xxs).

    byte  0       2                          66                             98
          [ d f16 | qs: points, 64 bytes     | signs, scales: 8 × uint32    ]

        point p of block j    byte 2 + 8j + p;  p = 0 … 7
        signs of block j      bits 7k … 7k + 6 of word j are those of weights 8k … 8k + 6, set where one is negative;
                              their parity is that of weight 8k + 7: of the eight, an even number is negative
        scale of block j      bits 31-28 of word j

Kernels compute with half the magnitudes, which are all even, and give both halves of a block the same scale.
"""

from collections.abc import Iterator

from kquants.formats.grid_points import Points, odd_scales, signs_with_parity
from kquants.formats.grid_rows import Indices, scales_in_words, unpacked_row
from kquants.formats.grid_weights import grid_weights
from kquants.formats.grids.iq3_xxs import IQ3_XXS
from kquants.formats.packed_bytes import Floats
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, SuperBlockScales, UnitScales, Unpacked
from kquants.formats.weight_row import UnpackedRow, WeightRow

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 98, 8, 2
BITS, OFFSET = 6, 32

_HALVES = IQ3_XXS.divided_by(2)


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = weight / 2 + 32."""
    for pair in range(4):
        words = [tile.word(66 + 4 * j) for j in (2 * pair, 2 * pair + 1)]
        signs = [signs_with_parity(word) for word in words]
        points = [Points(tile.word(2 + 16 * pair + 4 * i), signs[i // 2], 16 * (i % 2)) for i in range(4)]
        for i, u in enumerate(grid_weights(_HALVES, points, OFFSET)):
            yield HalfBlock(2 * pair + i // 2, i % 2, u)
        for i, word in enumerate(words):
            yield UnitScales(2 * pair + i, odd_scales(word >> 28 | word >> 28 << 16))
    yield SuperBlockScales(tile.half(0) * 0.5)


def unpack_row(row: WeightRow) -> UnpackedRow:
    """What a super-block of a row holds: u = magnitude / 2."""
    words = row.words(66)
    return unpacked_row(row, _HALVES, Indices(row.at(2), 8), signs_with_parity(words).bytes(), scales_in_words(words))


def row_factors(tile: Tile) -> Floats:
    """d / 2 of each row."""
    return tile.halves(0) * 0.5
