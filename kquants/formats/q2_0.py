"""Q2_0: blocks of 64 weights in 18 bytes, w = d · (q - 1), q in 0 … 3 (ggml: block_q2_0).

byte  0       2                    18
      [ d f16 | q: 16 bytes        ]

byte 2 + k    bits 2i + 1, 2i are weight 4k + i
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 18, 2, 1
BITS, OFFSET = 2, 1


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = q."""
    d = tile.half(0)
    for block in range(2):
        q = tile.word(2 + 8 * block), tile.word(6 + 8 * block)
        for half in range(2):
            yield HalfBlock(block, half, q[half].spread_pairs())
        yield UnitScales(block, d)
