"""Q8_0: blocks of 32 weights in 34 bytes, w = d · q (ggml: block_q8_0).

byte  0       2                      34
      [ d f16 | q0 q1 … q31 (int8) ]
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SIGNED, HalfBlock, UnitScales, Unpacked
from kquants.simd.dot4 import SIGNED_OFFSET

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 34, 1, 1
BITS, OFFSET = 8, SIGNED


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = q + SIGNED_OFFSET."""
    d = tile.half(0)
    for half in range(2):
        yield HalfBlock(0, half, tile.packed(2 + 16 * half) ^ SIGNED_OFFSET)
    yield UnitScales(0, d)
