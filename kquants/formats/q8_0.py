"""Q8_0: blocks of 32 weights in 34 bytes, w = d · q (ggml: block_q8_0).

byte  0       2                      34
      [ d f16 | q0 q1 … q31 (int8) ]
"""

import numba as nb

from kquants.decorators import Block, inline
from kquants.simd import load_f16, load_i8x32, store_f32x16
from kquants.tiles import Tile, flip_signs, gather_f16, load_rows

BLOCK_BYTES = 34


@inline
def block(row: int, i: int) -> Block:
    """Block `i` of the row: (q, scale of its first half, of its second, minimum, d, dmin)."""
    b = row + i * BLOCK_BYTES
    one = nb.int32(1)
    return load_i8x32(b + 2), one, one, nb.int32(0), load_f16(b), nb.float32(0)


@inline
def tile_scales(w: int, stride: int, i: int, scales: int) -> None:
    """Write d of block `i` of 16 rows."""
    store_f32x16(scales, gather_f16(w + i * BLOCK_BYTES, stride))


@inline
def tile_weights(w: int, stride: int, i: int, j: int) -> Tile:
    """Block `i` of 16 rows: q + 128."""
    return flip_signs(load_rows(w + i * BLOCK_BYTES + 2, stride))
