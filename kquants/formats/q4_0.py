"""Q4_0: blocks of 32 weights in 18 bytes, w = d · (q - 8), q in 0 … 15 (ggml: block_q4_0).

byte  0       2                    18
      [ d f16 | q: 16 bytes        ]

byte 2 + l    low nibble is weight l, high nibble weight l + 16
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 18, 1, 1
BITS, OFFSET = 4, 8


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = q."""
    d, q = tile.half(0), tile.packed(2)
    yield HalfBlock(0, 0, q.bits(0, 4))
    yield HalfBlock(0, 1, q.bits(4, 4))
    yield UnitScales(0, d)
