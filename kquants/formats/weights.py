"""Quantized weights as float32: sixteen super-blocks of a row at once, as if each were of a row of its own.

So a format's `unpack` serves here, too. A lane then has one weight of its super-block after the
other, which a transpose brings side by side. They are, rounded as in gguf.quants,

    w = (d · scale) · q  +  (-dmin · minimum)      or, without super-blocks,      w = d · q + m
"""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.formats.packed_bytes import Value
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import (
    Format,
    HalfBlock,
    SuperBlockScales,
    UnitScales,
    Unpacked,
    Values,
    has_integer_scales,
    offset_of,
)
from kquants.layout import TILE_ROWS
from kquants.simd import F32, I32, at, call, define, pointer, times, transposed
from kquants.simd.dot2 import high_int16, low_int16

_LONG = ir.IntType(64)


def weights_of(fmt: Format) -> Any:
    """`weights(blocks, count, to)`: the weights of up to 16 (super-)blocks at an address to another one.

    `count` is how many follow, 1 at least. Those beyond the 16th stay out.
    """
    block_bytes, weights = fmt.BLOCK_BYTES, 32 * fmt.BLOCKS

    @define(types.none, *[types.int64] * 3)
    def unpack(b: ir.IRBuilder, blocks: Value, count: Value, to: Value) -> None:
        last = b.sub(count, _LONG(1))
        # Lanes beyond the last block hold that one again, and store the same where it belongs.
        numbers = [call(b, "llvm.smin.i64", _LONG, _LONG(i), last) for i in range(TILE_ROWS)]
        tile = Tile(b, [at(b, blocks, times(b, i, block_bytes)) for i in numbers], block_bytes)
        places = [at(b, to, times(b, i, 4 * weights)) for i in numbers]
        items = list(fmt.unpack(tile))
        scales = _scales_of_sub_blocks(b, fmt, items)
        for part in items:
            if isinstance(part, HalfBlock):
                d, m = scales[part.block * fmt.SUB_BLOCKS + part.half * (fmt.SUB_BLOCKS - 1)]
                q = [b.sitofp(byte, F32.vector) for byte in _bytes(b, (part.u - offset_of(fmt)).vectors)]
                products = [b.fmul(d, v) for v in q]
                found = [b.fadd(v, m) for v in products] if m else products
                first = 4 * (32 * part.block + 16 * part.half)
                for place, v in zip(places, transposed(b, found), strict=True):
                    b.store(v, pointer(b, at(b, place, first), v.type), align=4)

    return unpack


def _scales_of_sub_blocks(b: ir.IRBuilder, fmt: Format, items: list[Unpacked]) -> list[Values]:
    """d and m of each sub-block, as floats: w = d q + m."""
    found = [item.values for item in items if isinstance(item, UnitScales)]
    if not has_integer_scales(fmt):
        return found if fmt.SUB_BLOCKS == 1 else [(d, None) for both in found for d in both]
    ((d, minus_dmin),) = (item.values for item in items if isinstance(item, SuperBlockScales))

    def scaled(factor: Value, int16: Value) -> Value:
        return b.fmul(factor, b.sitofp(int16, F32.vector))

    return [
        (scaled(d, int16(b, scales)), minima and scaled(minus_dmin, int16(b, minima)))
        for scales, minima in found
        for int16 in (low_int16, high_int16)
    ]


def _bytes(b: ir.IRBuilder, vectors: list[Value]) -> list[Value]:
    """The bytes of each lane of each vector, as int32."""
    top = ir.Constant(I32.vector, [24] * 16)
    words = [b.bitcast(v, I32.vector) for v in vectors]
    return [b.ashr(b.shl(v, ir.Constant(v.type, [24 - 8 * i] * 16)), top) for v in words for i in range(4)]
