"""Q4_1: blocks of 32 weights in 20 bytes, w = d · q + m, q in 0 … 15 (ggml: block_q4_1).

byte  0       2       4                    20
      [ d f16 | m f16 | q: 16 bytes        ]

byte 4 + l    low nibble is weight l, high nibble weight l + 16
"""

from collections.abc import Iterator

from kquants.formats.pieces import Part, Piece, Scales
from kquants.formats.tiles import Tile

BLOCK_BYTES, BLOCKS, SPANS = 20, 1, 1
BITS, OFFSET = 4, 0


def unpack(tile: Tile) -> Iterator[Piece]:
    """What a block of a tile holds, piece by piece: u = q."""
    d, m, q = tile.half(0), tile.half(2), tile.quads(4)
    yield Part(0, 0, q.bits(0, 4))
    yield Part(0, 1, q.bits(4, 4))
    yield Scales(0, d, m)
