"""A super-block of a tile times rows of x: exact integer dot products, then the scales.

Every quantized format is w = d · (u - offset) + m here: unsigned bytes u, one offset for the format, and float32 d
and m that belong to a span of 32 or of 16 weights; formats have an offset or m, not both. For each block of 32, in
order of k, if it is one span:

    y = fma(float(Σ (u - offset) · q_x), d · d_x, y),  then where there is m  y = fma(m, d_x · Σ q_x, y)

and if it is two, 0 and 1:

    v = fma(d1, float(Σ1 (u - offset) · q_x), d0 · float(Σ0 (u - offset) · q_x)),
    where there is m  v = fma(-m1, float(-Σ1 q_x), fma(-m0, float(-Σ0 q_x), v)),  then  y = fma(v, d_x, y)

Where it is faster, u may be times a power of two and d divided by it: that changes no bit, unless a product leaves
the range of float32.

A format describes its super-block by `unpack(tile)`, which yields Parts and Scales; what is done with them is here.
Either they meet one row of x at once (decode), or they are stored, for many rows of x (prefill):

    weights    [blocks][8][64]          vector k of a block: bytes u of weights 4k … 4k + 3, row i of W in lane i
    scales     [blocks][spans][2][16]   float32: d, then m, of each row of W
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from llvmlite import ir
from numba import types

from kquants.cpu import has
from kquants.dot4 import SIGNED_OFFSET, Dot4, start_dot4
from kquants.layout import QUANTIZED_BLOCK_BYTES
from kquants.quads import Floats, Quads, Value
from kquants.simd import F32, I8_64, I32, define, fma, pointer, splat
from kquants.tiles import Tile

TOGETHER = 8 if has("avx512f") else 2
"""Rows of x that share a pass over an unpacked block: as many as the registers hold sums for."""

BLOCK_WEIGHTS, SPAN_SCALES = 8 * 64, 2 * 64
"""Bytes of an unpacked block's weights, and of a span's d and m."""

_FLOAT, _INT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True)
class Part:
    """u of one half of a block: 16 weights of each row."""

    block: int
    half: int
    u: Quads


@dataclass(frozen=True)
class Scale:
    """d and m of a span of a block."""

    block: int
    span: int
    d: Floats
    m: Floats | None = None


class Format(Protocol):
    """What a module of `kquants.formats` says of its format."""

    BLOCK_BYTES: int
    BLOCKS: int
    """Blocks of 32 in a super-block."""
    SPANS: int
    """Spans in a block: 1 or 2."""
    BITS: int
    """u is below 2**BITS."""
    OFFSET: int
    """0 where spans have an m; 128 makes bytes of signed ones."""

    @property
    def unpack(self) -> Callable[[Tile], Iterator[Part | Scale]]:
        """What a super-block of a tile holds, piece by piece; the Scales of a block after its Parts."""


class Several:
    """Some blocks of a format without super-blocks as one: they are loaded together, wherever each begins."""

    def __init__(self, one: Format, count: int) -> None:
        self.BLOCK_BYTES, self.BLOCKS = count * one.BLOCK_BYTES, count * one.BLOCKS
        self.SPANS, self.BITS, self.OFFSET = one.SPANS, one.BITS, one.OFFSET
        self._one = one

    def unpack(self, tile: Tile) -> Iterator[Part | Scale]:
        """The pieces of each."""
        for i in range(self.BLOCKS):
            for piece in self._one.unpack(tile.part(i * self._one.BLOCK_BYTES)):
                yield replace(piece, block=i)


# --- one row of x: decode ------------------------------------------------------------------------------


def multiply_tile(fmt: Format, rows: int) -> Any:
    """An operation: add the products of a super-block with a few rows of x to the sums of the 16 rows of W.

    Arguments: sums (a tuple), the address of the super-block, bytes between rows, the addresses of the super-block
    that follows and to ask for ahead (see `Tile`), the 32 · blocks values of x, what belongs to them (see
    `kquants.activations`), bytes per row of x.
    """
    sums_type = types.UniTuple(F32, rows)

    @define(sums_type, sums_type, *[types.int64] * 7)
    def multiply(
        b: ir.IRBuilder,
        y: Value,
        w: Value,
        stride: Value,
        following: Value,
        ahead: Value,
        x: Value,
        x_scales: Value,
        x_stride: Value,
    ) -> Value:
        offsets = [b.mul(x_stride, _LONG(t)) for t in range(rows)]
        dots: dict[tuple[int, int], list[Dot4]] = {}
        scales: dict[int, list[Scales]] = {}
        for piece in fmt.unpack(Tile(b, w, stride, following, ahead, fmt.BLOCK_BYTES)):
            to_scales = at(b, x_scales, QUANTIZED_BLOCK_BYTES * piece.block)
            if isinstance(piece, Part):
                span = piece.half * (fmt.SPANS - 1)
                to_x = at(b, x, 32 * piece.block + 16 * piece.half)
                if (piece.block, span) not in dots:
                    dots[piece.block, span] = [_start(b, fmt, at(b, to_scales, o), span) for o in offsets]
                _add(b, dots[piece.block, span], piece.u.vectors, [at(b, to_x, o) for o in offsets])
            else:
                of_block = scales.setdefault(piece.block, [])
                of_block.append((piece.d.value, piece.m and piece.m.value))
                if len(of_block) == fmt.SPANS:
                    totals = [[dot.total() for dot in dots[piece.block, span]] for span in range(fmt.SPANS)]
                    y = _scale(b, y, totals, of_block, [at(b, to_scales, o) for o in offsets])
        return y

    return multiply


def _add(b: ir.IRBuilder, dots: list[Dot4], vectors: list[Value], x: list[Value]) -> None:
    """Add to each sum the products of these vectors of weights with the row of x that goes on at an address."""
    for k, u in enumerate(vectors):
        for dot, row in zip(dots, x, strict=True):
            four = splat(b, load(b, at(b, row, 4 * k), _INT))
            dot.add(u, b.bitcast(four, I8_64.vector))


def _scale(b: ir.IRBuilder, y: Value, dots: list[list[Value]], scales: list["Scales"], x_scales: list[Value]) -> Value:
    """y with the products of a block; of those, each span has one for each row of x."""
    for t, (x_scale, *of_row) in enumerate(zip(x_scales, *dots, strict=True)):
        y = b.insert_value(y, scaled(b, b.extract_value(y, t), of_row, scales, x_scale), t)
    return y


# --- many rows of x: prefill ---------------------------------------------------------------------------


def store_tile(fmt: Format, signed: bool) -> Any:
    """An operation: unpack a super-block; `signed` weights have their offset taken off.

    Arguments: its address, bytes between rows, the addresses of the super-block that follows and to ask for ahead,
    where its weights go, and its scales.
    """

    @define(types.none, *[types.int64] * 6)
    def store(
        b: ir.IRBuilder, w: Value, stride: Value, following: Value, ahead: Value, weights: Value, scales: Value
    ) -> None:
        for piece in fmt.unpack(Tile(b, w, stride, following, ahead, fmt.BLOCK_BYTES)):
            if isinstance(piece, Part):
                u = piece.u - fmt.OFFSET if signed and fmt.OFFSET else piece.u
                _store(b, at(b, weights, BLOCK_WEIGHTS * piece.block + 256 * piece.half), u.vectors)
            else:
                values = [v.value for v in (piece.d, piece.m) if v]
                _store(b, at(b, scales, SPAN_SCALES * (fmt.SPANS * piece.block + piece.span)), values)

    return store


def _store(b: ir.IRBuilder, address: Value, vectors: list[Value]) -> None:
    for i, v in enumerate(vectors):
        b.store(v, pointer(b, at(b, address, 64 * i), v.type), align=64)


def multiply_block(fmt: Format) -> Any:
    """An operation: add the products of an unpacked block with TOGETHER rows of x to their sums.

    Arguments: sums (a tuple), weights, scales, x, what belongs to this block of x, bytes per row of x.
    """
    sums_type = types.UniTuple(F32, TOGETHER)
    each = 8 // fmt.SPANS

    @define(sums_type, sums_type, *[types.int64] * 5)
    def multiply(
        b: ir.IRBuilder, y: Value, weights: Value, scales: Value, x: Value, x_scale: Value, stride: Value
    ) -> Value:
        offsets = [b.mul(stride, _LONG(t)) for t in range(TOGETHER)]
        totals = []
        for span in range(fmt.SPANS):
            dots = [_start(b, fmt, at(b, x_scale, o), span) for o in offsets]
            first = span * each
            vectors = [load(b, at(b, weights, 64 * k), I8_64.vector) for k in range(first, first + each)]
            _add(b, dots, vectors, [at(b, at(b, x, o), 4 * first) for o in offsets])
            totals.append([dot.total() for dot in dots])
        return _scale(b, y, totals, scales_of(b, fmt, scales), [at(b, x_scale, o) for o in offsets])

    return multiply


def sums_of(rows: int) -> tuple[Any, Any, Any]:
    """Operations on the sums of `rows` rows of x: (zeros, load 64 bytes each from an address, store them there)."""
    sums_type = types.UniTuple(F32, rows)

    @define(sums_type)
    def zeros(b: ir.IRBuilder) -> Value:
        return ir.Constant(ir.ArrayType(F32.vector, rows), None)

    @define(sums_type, types.int64)
    def load_sums(b: ir.IRBuilder, address: Value) -> Value:
        sums: Value = ir.Constant(ir.ArrayType(F32.vector, rows), ir.Undefined)
        for t in range(rows):
            sums = b.insert_value(sums, load(b, at(b, address, 64 * t), F32.vector), t)
        return sums

    @define(types.none, types.int64, sums_type)
    def store_sums(b: ir.IRBuilder, address: Value, sums: Value) -> None:
        _store(b, address, [b.extract_value(sums, t) for t in range(rows)])

    return zeros, load_sums, store_sums


# --- what they share -----------------------------------------------------------------------------------


Scales = tuple[Value, Value | None]
"""d and m of a span; no m in formats with an offset."""


def scales_of(b: ir.IRBuilder, fmt: Format, address: Value) -> list[Scales]:
    """d and m of the spans of an unpacked block."""
    spans = [at(b, address, SPAN_SCALES * span) for span in range(fmt.SPANS)]
    return [(load(b, s, F32.vector), None if fmt.OFFSET else load(b, at(b, s, 64), F32.vector)) for s in spans]


def scaled(b: ir.IRBuilder, y: Value, dots: list[Value], scales: list[Scales], x_scale: Value) -> Value:
    """y with the products of a block's spans added, as the module says; at `x_scale` are d_x and the sums."""
    d_x = splat(b, load(b, x_scale, _FLOAT))
    products = [b.sitofp(dot, F32.vector) for dot in dots]
    if len(dots) == 1:
        ((d, m),) = scales
        y = fma(b, products[0], b.fmul(d, d_x), y)
        return fma(b, m, splat(b, load(b, at(b, x_scale, 4), _FLOAT)), y) if m else y
    (d_0, _), (d_1, _) = scales
    v = fma(b, d_1, products[1], b.fmul(d_0, products[0]))
    for span, (_, m) in enumerate(scales):
        if m:
            minus_sum = splat(b, load(b, at(b, x_scale, 12 + 4 * span), _INT))
            v = fma(b, b.fneg(m), b.sitofp(minus_sum, F32.vector), v)
    return fma(b, v, d_x, y)


def _start(b: ir.IRBuilder, fmt: Format, x_scale: Value, span: int) -> Dot4:
    """Products of a span, which begin with what the offset makes of them: -offset · Σ q_x."""
    minus_sum = load(b, at(b, x_scale, 8 if fmt.SPANS == 1 else 12 + 4 * span), _INT)
    offset = SIGNED_OFFSET if is_signed(fmt) else fmt.OFFSET
    start = b.mul(splat(b, minus_sum), ir.Constant(I32.vector, [offset] * 16))
    return start_dot4(b, start, fmt.BITS, is_signed(fmt))


def is_signed(fmt: Format) -> bool:
    """Whether weights are signed bytes: then dot4 has its own wish for an offset."""
    return fmt.OFFSET == 128


def at(b: ir.IRBuilder, address: Value, offset: Value | int) -> Value:
    """An address some bytes on."""
    return b.add(address, _LONG(offset) if isinstance(offset, int) else offset)


def load(b: ir.IRBuilder, address: Value, element: ir.Type) -> Value:
    """What lies at an address."""
    return b.load(pointer(b, address, element), align=1)
