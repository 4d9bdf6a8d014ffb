"""IQ4_NL: blocks of 32 weights in 18 bytes, w = d · value[q], q in 0 … 15 (ggml: block_iq4_nl).

byte  0       2                    18
      [ d f16 | q: 16 bytes        ]

byte 2 + l    low nibble is weight l, high nibble weight l + 16
value         sixteen int8, closer together near 0, where most weights are (ggml: kvalues_iq4nl)
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import SIGNED, HalfBlock, UnitScales, Unpacked
from kquants.simd.dot4 import SIGNED_OFFSET

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 18, 1, 1
BITS, OFFSET = 7, SIGNED

VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
CODES = tuple(value + SIGNED_OFFSET for value in VALUES)


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = value + SIGNED_OFFSET."""
    d, q = tile.half(0), tile.packed(2)
    for half in range(2):
        yield HalfBlock(0, half, q.lookup(CODES, 4 * half))
    yield UnitScales(0, d)
