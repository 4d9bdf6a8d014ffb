"""Q5_K: super-blocks of 256 weights in 176 bytes: eight blocks of 32 with a 6-bit scale and a 6-bit minimum
each, w = d · scale · q - dmin · minimum, q in 0 … 31 (ggml: block_q5_K).

    byte  0       2          4                 16              48                          176
          [ d f16 | dmin f16 | scales, minima  | qh: q, bit 4  | ql: 4 groups of 32 bytes  ]

        scales of block j                as in Q4_K
        q of block j,        low bits    ql[32 (j / 2) + l], low nibble for even j, else high
        weight l             bit 4       qh[l], bit j
"""

from collections.abc import Iterator

from kquants.formats.q4_k import scales_of, super_block_scales
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 176, 8, 1
BITS, OFFSET = 5, 0


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = q."""
    for pair in range(4):
        for j in (2 * pair, 2 * pair + 1):
            for half in range(2):
                low, high = tile.packed(48 + 32 * pair + 16 * half), tile.packed(16 + 16 * half)
                yield HalfBlock(j, half, low.bits(4 * (j % 2), 4) | high.bits(j, 1, to=4))
        yield scales_of(tile, pair)
    yield super_block_scales(tile)
