"""Q1_0: blocks of 128 weights in 18 bytes, w = d or -d (ggml: block_q1_0).

byte  0       2                    18
      [ d f16 | q: 128 bits        ]

byte 2 + k    bit i is weight 8k + i: 1 for d, 0 for -d
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 18, 4, 1
BITS, OFFSET = 2, 1


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = 2q."""
    d = tile.half(0)
    for block in range(4):
        q = tile.word(2 + 4 * block)
        for half in range(2):
            yield HalfBlock(block, half, q.spread(half, to=1))
        yield UnitScales(block, d)
