"""Pages of latent attention, where the values of a cell are the first of its key (see `kquants.attention.pages`).

Keys lie by value, [key_dim][PAGE], so that scores have one order. Sums of values need them by cell: a page is
transposed to float32 [PAGE][width], 16 values of 16 cells at a time, in registers, for all heads of a tile. The cache
takes 47 % less memory than with values beside the keys, and attention of one row this much longer:

- measured on Zen 4, one thread, 4096 cells of 512 + 64 values in memory, f16: 16 heads 8 %, 20 heads 4 %, 128 heads 1 %
- measured there, q8_0: 16 heads 17 %
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.decorators import inline
from kquants.kv_layout import PAGE
from kquants.simd import F32, I8_64, I32, at, at_strides, define, half_to_float, pointer, prefetch, shuffle
from kquants.simd.dot4 import SIGNED_OFFSET

_LONG, _HALVES, _INTS = ir.IntType(64), ir.VectorType(ir.IntType(16), 16), I32.vector

LoadBlock = Callable[[ir.IRBuilder, Any, Any], list[Any]]
"""`(builder, keys, scales)`: 16 values of 16 cells as 16 vectors of float32, one for each value."""


def _in_parts(*lanes: int) -> list[int]:
    """Lanes of two vectors: these of the first part of four lanes, and the same of each other part."""
    return [part + lane for part in range(0, 16, 4) for lane in lanes]


_LOW, _HIGH = _in_parts(0, 16, 1, 17), _in_parts(2, 18, 3, 19)
_LOW_PAIRS, _HIGH_PAIRS = _in_parts(0, 1, 16, 17), _in_parts(2, 3, 18, 19)
_FIRST_PARTS, _LAST_PARTS = [*range(8), *range(16, 24)], [*range(8, 16), *range(24, 32)]
_EVEN_PARTS, _ODD_PARTS = ([lane for lane in range(32) if lane // 4 % 2 == odd] for odd in (0, 1))


def _transposed(b: ir.IRBuilder, rows: list[Any]) -> list[Any]:
    """16 vectors of 16 lanes, transposed: 4 by 4 within parts of four lanes, then the parts.

    Each step is a shuffle that CPUs have as one instruction.
    """

    def combine(x: list[Any], y: list[Any], *patterns: list[int]) -> list[list[Any]]:
        return [[shuffle(b, v, w, lanes) for v, w in zip(x, y, strict=True)] for lanes in patterns]

    low, high = combine(rows[0::2], rows[1::2], _LOW, _HIGH)
    quarters = combine(low[0::2], low[1::2], _LOW_PAIRS, _HIGH_PAIRS)
    quarters += combine(high[0::2], high[1::2], _LOW_PAIRS, _HIGH_PAIRS)
    columns: list[Any] = [None] * 16
    for k, parts in enumerate(quarters):  # part p of vector g has lane 4 p + k of rows 4 g … 4 g + 3
        halves = combine(parts[0::2], parts[1::2], _FIRST_PARTS, _LAST_PARTS)
        for half, (x, y) in enumerate(halves):
            columns[8 * half + k] = shuffle(b, x, y, _EVEN_PARTS)
            columns[8 * half + 4 + k] = shuffle(b, x, y, _ODD_PARTS)
    return columns


def _block_transposer(load_block: LoadBlock) -> Any:
    """`transpose(keys, scales, to, stride)`: write 16 values of 16 cells to `to`, each cell `stride` bytes apart."""

    @define(types.none, types.int64, types.int64, types.int64, types.int64)
    def transpose(b: ir.IRBuilder, keys: Any, scales: Any, to: Any, stride: Any) -> None:
        rows = _transposed(b, load_block(b, keys, scales))
        for row, place in zip(rows, at_strides(b, to, stride, 16), strict=True):
            b.store(row, pointer(b, place, F32.vector), align=1)

    return transpose


def _load_f32(b: ir.IRBuilder, keys: Any, scales: Any) -> list[Any]:
    return [b.load(pointer(b, a, F32.vector), align=1) for a in at_strides(b, keys, _LONG(4 * PAGE), 16)]


def _load_f16(b: ir.IRBuilder, keys: Any, scales: Any) -> list[Any]:
    halves = [b.load(pointer(b, a, _HALVES), align=1) for a in at_strides(b, keys, _LONG(2 * PAGE), 16)]
    return [half_to_float(b, v) for v in halves]


def _load_q8(b: ir.IRBuilder, keys: Any, scales: Any) -> list[Any]:
    """Four values of a cell lie side by side; the cells of a block of 32 values have a scale each."""
    d = half_to_float(b, b.load(pointer(b, scales, _HALVES), align=1))
    fours = [b.load(pointer(b, at(b, keys, 4 * PAGE * k), I8_64.vector), align=1) for k in range(4)]
    if SIGNED_OFFSET:
        offset = ir.Constant(I8_64.vector, [SIGNED_OFFSET - 256] * 64)
        fours = [b.xor(four, offset) for four in fours]
    words = [b.bitcast(four, _INTS) for four in fours]
    values = [
        b.ashr(b.shl(word, ir.Constant(_INTS, [24 - 8 * j] * 16)), ir.Constant(_INTS, [24] * 16))
        for word in words
        for j in range(4)
    ]
    return [b.fmul(b.sitofp(v, F32.vector), d) for v in values]


def _page_transposer(load_block: LoadBlock, element: int, scaled: bool) -> Any:
    """`convert_values` of a page reader, for keys of which a value takes `element` bytes, with scales or not."""
    transpose = _block_transposer(load_block)

    @inline
    def convert_values(keys: int, width: int, key_width: int, buffer: int, next_page: int) -> int:
        for d in range(0, width, 16):
            block = element * PAGE * d
            scales = keys + PAGE * key_width + 2 * PAGE * (d >> 5) if scaled else keys
            for i in range(0, 16 * element * PAGE, 64):
                prefetch(next_page + block + i)
            for c in range(0, PAGE, 16):
                cells = 4 * c if scaled else element * c
                transpose(keys + block + cells, scales + 2 * c, buffer + 4 * (c * width + d), 4 * width)
        return buffer

    return convert_values


f16_latents, f32_latents = _page_transposer(_load_f16, 2, False), _page_transposer(_load_f32, 4, False)
q8_latents = _page_transposer(_load_q8, 1, True)
