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

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SuperBlockScales, UnitScales, Unpacked, half_of_bits

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 144, 8, 1
BITS, OFFSET = 4, 0
"""The constants of a format are described in `kquants.formats.unpacking.Format`."""


def scales_of(tile: Tile, pair: int) -> UnitScales:
    """Scales and minima of blocks 2 · pair and 2 · pair + 1.

    Only a pair is unpacked at a time, as all eight do not fit in the registers.
    """
    first, second, third = (tile.word(at) for at in (4, 8, 12))
    if pair < 2:
        scales, minima = first & 0x3F3F3F3F, second & 0x3F3F3F3F
    else:
        scales = third & 0x0F0F0F0F | first >> 2 & 0x30303030
        minima = third >> 4 & 0x0F0F0F0F | second >> 2 & 0x30303030
    return UnitScales(pair, scales.int16(2 * (pair % 2)), minima.int16(2 * (pair % 2)))


def super_block_scales(tile: Tile) -> SuperBlockScales:
    """d and -dmin of a super-block."""
    return SuperBlockScales(tile.half(0), -tile.half(2))


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """Yields half blocks of q, the scales after each pair of blocks, then d and dmin."""
    for pair in range(4):
        for half in range(2):
            q = tile.packed(16 + 32 * pair + 16 * half)
            yield half_of_bits(2 * pair, half, q, 0, 4)
            yield half_of_bits(2 * pair + 1, half, q, 4, 4)
        yield scales_of(tile, pair)
    yield super_block_scales(tile)
