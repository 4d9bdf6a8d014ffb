"""MXFP4: blocks of 32 weights in 17 bytes, w = 2^(e - 127) · q, q a 4-bit float (ggml: block_mxfp4; OCP
Microscaling Formats 1.0, section 5.3.3: E2M1 elements under an E8M0 scale).

    byte  0      1                    17
          [ e u8 | q: 16 bytes        ]

    byte 1 + l    low nibble is weight l, high nibble weight l + 16
    q             bit 3 is the sign of 0, 0.5, 1, 1.5, 2, 3, 4, 6; computed as twice that, under half the scale
"""

from collections.abc import Iterator

import numba as nb

from kquants.decorators import Block, inline
from kquants.pieces import Part, Piece, Scales
from kquants.simd import f32_of_bits, load_nibbles_i8x32, load_u8, lookup_i8
from kquants.tiles import Tile

BLOCK_BYTES, BLOCKS, SPANS = 17, 1, 1
BITS, OFFSET = 5, 12

_TWICE = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
_CODES = tuple(value + OFFSET for value in _TWICE)

_twice = lookup_i8(_TWICE)


@inline
def _half_scale(e: int) -> float:
    """2^(e - 128). Its exponent bits are e - 1; the two smallest are denormal. (Inf and NaN cannot appear.)"""
    return f32_of_bits(nb.int32(0x200000 << e if e < 2 else e - 1 << 23))


@inline
def block(row: int, i: int) -> Block:
    """Block `i` of the row: (q, scale of its first half, of its second, minimum, d, dmin)."""
    b = row + i * BLOCK_BYTES
    one = nb.int32(1)
    return _twice(load_nibbles_i8x32(b + 1)), one, one, nb.int32(0), _half_scale(load_u8(b)), nb.float32(0)


def unpack(tile: Tile) -> Iterator[Piece]:
    """What a block of a tile holds, piece by piece: u = 2q + 12."""
    e, q = tile.word(0), tile.quads(1)
    for half in range(2):
        yield Part(0, half, q.bits(4 * half, 4).lookup(_CODES))
    yield Scales(0, e.half_power())
