"""Q5_0: blocks of 32 weights in 22 bytes, w = d · (q - 16), q in 0 … 31 (ggml: block_q5_0).

byte  0       2                  6                          22
      [ d f16 | qh: 32 bits, LE  | ql: 16 bytes             ]

    q of weight l   low bits   low nibble of ql[l] for l < 16, else high nibble of ql[l - 16]
                    bit 4      bit l of qh
"""

from collections.abc import Iterator

from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 22, 1, 1
BITS, OFFSET = 5, 16


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = q."""
    d, high, low = tile.half(0), tile.word(2), tile.packed(6)
    for half in range(2):
        yield HalfBlock(0, half, low.bits(4 * half, 4) | high.spread(half, to=4))
    yield UnitScales(0, d)
