"""Q4_1: blocks of 32 weights in 20 bytes, w = d · q + m, q in 0 … 15 (ggml: block_q4_1).

byte  0       2       4                    20
      [ d f16 | m f16 | q: 16 bytes        ]

byte 4 + l    low nibble is weight l, high nibble weight l + 16
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 20, 1, 1
BITS, OFFSET = 4, 0


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = q."""
    d, m, q = tile.half(0), tile.half(2), tile.packed(4)
    yield HalfBlock(0, 0, q.bits(0, 4))
    yield HalfBlock(0, 1, q.bits(4, 4))
    yield UnitScales(0, d, m)
