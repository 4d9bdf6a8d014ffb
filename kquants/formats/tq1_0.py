"""TQ1_0: super-blocks of 256 weights in 54 bytes, w = d · (t - 1), t in 0 … 2: ternary weights, five or four in a byte
(ggml: block_tq1_0).

    byte  0                      48           52      54
          [ qs: 32 + 16 bytes    | qh: 4 B    | d f16 ]

    t of weight      0 … 159      32n + l           trit n of byte l, l < 32
                     160 … 239    160 + 16n + l     trit n of byte 32 + l, l < 16
                     240 … 255    240 + 4n + l      trit n of byte 48 + l, l < 4

Trits are those of `kquants.formats.trits`.
"""

from collections.abc import Iterator

from kquants.formats.packed_bytes import PackedBytes
from kquants.formats.tiles import Tile
from kquants.formats.trits import Trits
from kquants.formats.unpacking import HalfBlock, SuperBlockScales, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 54, 8, 1
BITS, OFFSET = 2, 1


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a super-block of a tile holds, item by item: u = t. All scales are 1."""
    ones = tile.int16s(1)
    for half in range(2):
        trits = Trits.of(tile.packed(16 * half))
        for n in range(5):
            yield trits.half_block(n, half, n)
    yield UnitScales(0, ones)
    yield UnitScales(1, ones)
    trits, last = Trits.of(tile.packed(32)), Trits.of(tile.four_bytes(48))
    for n in range(4):
        yield trits.half_block(5 + n // 2, n % 2, n)
        if n == 1:
            yield UnitScales(2, ones)
    yield HalfBlock(7, 0, trits.trits[4])
    yield HalfBlock(7, 1, PackedBytes(tile.b, [last.trits[n].vectors[0] for n in range(4)]))
    yield UnitScales(3, ones)
    yield SuperBlockScales(tile.halves(52))
