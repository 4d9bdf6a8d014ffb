"""A super-block of a tile as it is stored for many rows of x:

weights    [blocks][8][64]     see `BLOCK_WEIGHTS`; where `is_widened` int16, [blocks][16][64]; `by_shorts` int16, too,
                               times their scales, first the low bytes of all, then the high ones
scales     [units][2][64]      of each row of W: scales and minima of a unit, a block or a pair of spans; behind them,
                               where formats may have some, room for factors [8][64], and for U of both blocks
                               [2][64], see `kquants.formats.winograd`
whole      [2][64]             float32: d, then -dmin, where a super-block has them
"""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.cpu import level_soon
from kquants.formats.pieces import (
    BLOCK_WEIGHTS,
    Format,
    Part,
    Scales,
    Values,
    Whole,
    has_integer_scales,
    is_signed,
    offset_of,
)
from kquants.formats.quads import Value
from kquants.formats.shorts import AMX, by_shorts, two_bytes
from kquants.formats.tiles import tile_at
from kquants.formats.winograd import WINOGRAD, UnpackedBlock, by_winograd
from kquants.matmul.requests import PREFILL_AHEAD, Requests, beyond
from kquants.matmul.scaling import units_of
from kquants.matmul.super_blocks import FACTORS, IntegerScales
from kquants.simd import I8_64, VectorType, at, define, load, store_vectors, times
from kquants.simd.dot4 import VIA_INT16

FACTORS_AT = 2 * 64
U_AT = FACTORS_AT + (64 * FACTORS if VIA_INT16 or WINOGRAD else 0)
UNIT_SCALES = U_AT + (2 * 64 if WINOGRAD else 0)
"""Where in a unit's scales the factors begin that formats may have, and U of its blocks; and bytes of all."""


def is_widened(fmt: Format) -> bool:
    """Whether many rows of x meet the weights of a format as int16, on both sides."""
    return VIA_INT16 and is_signed(fmt)


def weight_bytes(fmt: Format) -> int:
    """Bytes of an unpacked weight, and of a value of x that it meets; `by_shorts`, of each of its two bytes."""
    return 2 if is_widened(fmt) else 1


HIGH_AT = 8 * BLOCK_WEIGHTS
"""Where in unpacked weights the high bytes of int16 begin, see `kquants.formats.shorts`."""

MOST_WEIGHT_BYTES = 2 if VIA_INT16 or AMX else 1
"""Those of any format."""


def has_factors(fmt: Format) -> bool:
    """Whether products of many rows of x are scaled span by span, see `IntegerScales.factors`, and not in pairs.

    Where they pass through int16, that is while they are widened. A Zen 4 with AVX2 alone multiplies Q4_K and Q5_K 8 %
    faster so, Q2_K 12, Q3_K 16, Q6_K 22 %. With AVX-512 it takes more multiplications, but fewer instructions: that
    gains where there are few of the former (`kquants.formats.winograd`), and nothing elsewhere.
    """
    return by_winograd(fmt) or (VIA_INT16 and has_integer_scales(fmt) and not is_signed(fmt))


def store_tile(fmt: Format) -> Any:
    """An operation: unpack a super-block. For matrix tiles weights have their offset taken off.

    Arguments: its address, bytes between rows, from where on to ask for the next tiles, where its weights go, and its
    scales.
    """

    @define(types.none, *[types.int64] * 5)
    def store(b: ir.IRBuilder, w: Value, stride: Value, next_tiles: Value, weights: Value, scales: Value) -> None:
        asked = beyond(b, next_tiles, PREFILL_AHEAD)
        requests = Requests(b, fmt.BLOCK_BYTES, asked, level_soon(), turns=2 * fmt.BLOCKS)
        blocks = [UnpackedBlock(b) for _ in range(fmt.BLOCKS)] if by_winograd(fmt) else []
        for piece in fmt.unpack(tile_at(b, w, stride, fmt.BLOCK_BYTES)):
            if isinstance(piece, Part):
                u = piece.u - offset_of(fmt) if AMX else piece.u
                place = at(b, weights, weight_bytes(fmt) * (BLOCK_WEIGHTS * piece.block + 256 * piece.half))
                if blocks:
                    store_vectors(b, place, blocks[piece.block].moved(piece.half, u.vectors))
                else:
                    store_vectors(b, place, u.widened() if is_widened(fmt) else u.vectors)
                requests.turn()
            else:
                unit = units_of(fmt) if isinstance(piece, Whole) else piece.unit
                place = at(b, scales, UNIT_SCALES * unit)
                store_vectors(b, place, [v for v in piece.values if v])
                if has_factors(fmt) and isinstance(piece, Scales):
                    store_vectors(b, at(b, place, FACTORS_AT), IntegerScales(fmt).factors(b, piece.scales.value))
                if by_shorts(fmt) and isinstance(piece, Scales):
                    _scale(b, fmt, piece, weights)
                if blocks and isinstance(piece, Scales):
                    store_vectors(b, at(b, place, U_AT), [block.u() for block in blocks[2 * unit : 2 * unit + 2]])
        requests.end()

    return store


def _scale(b: ir.IRBuilder, fmt: Format, piece: Scales, weights: Value) -> None:
    """The stored weights of a unit times their scales, as int16: their low bytes in place, the high ones behind all."""
    spans = range(2 * piece.unit, 2 * piece.unit + 2)
    for span, factors in zip(spans, IntegerScales(fmt).of_spans(b, piece.scales.value), strict=True):
        for i in range(BLOCK_WEIGHTS // fmt.SPANS * span, BLOCK_WEIGHTS // fmt.SPANS * (span + 1), 64):
            low, high = two_bytes(b, load(b, at(b, weights, i), I8_64.vector), factors)
            store_vectors(b, at(b, weights, i), [low])
            store_vectors(b, at(b, weights, i + HIGH_AT), [high])


def load_scales(b: ir.IRBuilder, fmt: Format, scales: Value, unit: Value | int, element: VectorType) -> Values:
    """What `store_tile` stored of a unit."""
    first = at(b, scales, times(b, unit, UNIT_SCALES))
    return load(b, first, element.vector), None if fmt.OFFSET else load(b, at(b, first, 64), element.vector)
