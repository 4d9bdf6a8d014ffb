"""NVFP4: blocks of 64 weights in 36 bytes, w = d · q, with a d for each 16 weights (ggml: block_nvfp4).

    byte  0               4                    36
          [ d: 4 × UE4M3  | q: 4 of 8 bytes    ]

    d of weights 16j … 16j + 15     byte j, a float of 8 bits: see `kquants.formats.packed_bytes.Words.halves_of_ue4m3`
    q of these weights              byte 4 + 8j + l: low nibble is weight 16j + l, high nibble weight 16j + l + 8
                                    bit 3 is the sign of 0, 0.5, 1, 1.5, 2, 3, 4, 6; computed as twice that, under d / 2

A tensor of NVFP4 may have a factor besides, in a tensor of its own: `edgellm.arch.blocks.Linear.factor`.
"""

from collections.abc import Iterator

from kquants.formats import mxfp4
from kquants.formats.packed_bytes import PackedBytes
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import HalfBlock, UnitScales, Unpacked

BLOCK_BYTES, BLOCKS, SUB_BLOCKS = 36, 2, 2
BITS, OFFSET = mxfp4.BITS, mxfp4.OFFSET


def unpack(tile: Tile) -> Iterator[Unpacked]:
    """What a block of a tile holds, item by item: u = 2q + OFFSET."""
    d = tile.word(0).halves_of_ue4m3()
    for j in range(2):
        q = tile.packed(4 + 16 * j)
        low, high = (q.lookup(mxfp4.CODES, first) for first in (0, 4))
        for half in range(2):
            words = slice(2 * half, 2 * half + 2)
            yield HalfBlock(j, half, PackedBytes(q.b, low.vectors[words] + high.vectors[words]))
        yield UnitScales(j, d[2 * j], second=d[2 * j + 1])
