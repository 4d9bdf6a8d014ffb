"""Q5_1: blocks of 32 weights in 24 bytes, w = d · q + m, q in 0 … 31 (ggml: block_q5_1).

byte  0       2       4                  8                          24
      [ d f16 | m f16 | qh: 32 bits, LE  | ql: 16 bytes             ]

    q of weight l   low bits   low nibble of ql[l] for l < 16, else high nibble of ql[l - 16]
                    bit 4      bit l of qh
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 24, 1, 1
BITS, OFFSET = 5, 0


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = q."""
    d, m, high, low = tile.half(0), tile.half(2), tile.word(4), tile.packed(8)
    for half in range(2):
        yield HalfBlock(0, half, low.bits(4 * half, 4) | high.spread(half, to=4))
    yield UnitScales(0, d, m)
