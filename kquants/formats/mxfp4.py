"""MXFP4: blocks of 32 weights in 17 bytes, w = 2^(e - 127) · q, q a 4-bit float (ggml: block_mxfp4; OCP
Microscaling Formats 1.0, section 5.3.3: E2M1 elements under an E8M0 scale).

    byte  0      1                    17
          [ e u8 | q: 16 bytes        ]

    byte 1 + l    low nibble is weight l, high nibble weight l + 16
    q             bit 3 is the sign of 0, 0.5, 1, 1.5, 2, 3, 4, 6; computed as twice that, under half the scale
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 17, 1, 1
BITS, OFFSET = 5, 16

_TWICE = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
CODES = tuple(value + OFFSET for value in _TWICE)


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = 2q + 16."""
    e, q = tile.word(0), tile.packed(1)
    for half in range(2):
        yield HalfBlock(0, half, q.lookup(CODES, 4 * half))
    yield UnitScales(0, e.half_power())
