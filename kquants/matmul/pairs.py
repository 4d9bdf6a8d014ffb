"""One row of x times a tile of W, of which two rows lie side by side in a register: 16 bytes of each.

Products then need 16 bytes of x, twice, and no bytes of W go to another lane. Sums do instead: those of a span of all
rows become one vector with a row in each lane, while they are added up (`_Sums`). Of 32 weights there are half as many
bytes of sums as of weights. The scales are unpacked with a row in each lane, as elsewhere.

A Zen 4 with AVX2 alone multiplies one row of x faster so (one thread): Q8_0 1.20 times, MXFP4 1.12, IQ4_NL and Q5_K
1.09, Q4_K 1.06, Q4_0 1.04. Others are slower: Q4_1 0.88, for the scales and minima of its blocks; Q5_0 0.79 and Q5_1
0.77, for their fifth bits; IQ4_XS 0.99; and, with spans of 16 weights, Q2_K 0.93 and Q3_K 0.90. With two rows of x
there are too few registers (Q4_K 0.90). Other CPUs with AVX2 are taken to be like it, which was not measured. All sums
are exact, so that the bits are those of other ways.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from llvmlite import ir

from kquants.compiler.cpu import lowering
from kquants.formats import iq4_nl, mxfp4, q4_0, q4_k, q5_k, q8_0
from kquants.formats.pieces import NOTHING, Format, Part, Piece, Scales, Several, Values, Whole, is_signed
from kquants.formats.quads import Floats, Quads, Value, Words
from kquants.formats.tiles import Tile
from kquants.layout import TILE_ROWS
from kquants.matmul.blocks import FloatScales
from kquants.matmul.parts import Spread
from kquants.matmul.requests import Requests
from kquants.matmul.scaling import scaling_of
from kquants.matmul.super_blocks import IntegerScales
from kquants.simd import F32, I8_64, I32, at, joined, load, pick
from kquants.simd.dot4 import start_dot4
from kquants.simd.dot_accumulator import DotAccumulator

_BYTE, _SHORT, _INT = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_HALF = ir.VectorType(_BYTE, 16)
_SHORTS, _INTS = ir.VectorType(_SHORT, 16), ir.VectorType(_INT, 8)

_FIRST = [0, 1, 2, 3, 8, 9, 10, 11]
"""The first row of each pair; the other is four rows further on: so sums of 32 bits end in the order of the rows."""

_PLACES = [([*_FIRST, *(row + 4 for row in _FIRST)]).index(row) for row in range(TILE_ROWS)]
"""Where sums of 16 bits have each row."""

_IN_PAIRS = (q8_0, q5_k, q4_k, q4_0, iq4_nl, mxfp4)


def is_in_pairs(fmt: Format, rows: int, parts: int) -> bool:
    """Whether a format is multiplied so with so many rows of x, where rows of W come in so many parts."""
    one = fmt.one if isinstance(fmt, Several) else fmt
    return one in _IN_PAIRS and rows == parts == 1 and lowering() == "AVX2"


@dataclass(frozen=True)
class _Pair(Tile):
    """Two rows; formats find their weights there, but no scales."""

    def quads(self, offset: int) -> Quads:
        """16 bytes of each, one behind the other."""
        b, begin = self.b, self.start + offset
        if begin not in self.columns:
            self.columns[begin] = [joined(b, [load(b, at(b, row, begin), _HALF) for row in self.rows])]
        return Quads(b, self.columns[begin])

    def word(self, offset: int) -> Words:
        """Nothing."""
        return Words(self.b, ir.Constant(I32.vector, None))

    def half(self, offset: int) -> Floats:
        """Nothing."""
        return Floats(self.b, ir.Constant(F32.vector, None))


@dataclass(frozen=True)
class _ScalesOnly(Tile):
    """16 rows; formats find their scales there, but no weights."""

    def quads(self, offset: int) -> Quads:
        """Nothing."""
        return Quads(self.b, [ir.Constant(I8_64.vector, None)] * 4)

    def half(self, offset: int) -> Floats:
        """Loaded row by row, where its column is not there yet."""
        if self._place(self.start + offset)[0] in self.columns:
            return super().half(offset)
        return self.halves(offset)


@dataclass(frozen=True)
class _Sums:
    """The sums of lanes, int16 or int32, that belong to the same row: vectors of a pair each go in, in order.

    Of two vectors, the low and the high halves of what belongs to a row are added, which leaves as many lanes for twice
    as many rows; such vectors wait for others like them.
    """

    b: ir.IRBuilder
    kind: ir.VectorType
    waiting: list[Value] = field(default_factory=list)

    def put(self, v: Value) -> None:
        """Take the next pair's vector."""
        while self.waiting and v.type.element.width < 128 and self.waiting[-1].type == v.type:
            v = self._added(self.waiting.pop(), v)
        self.waiting.append(v)

    def of_rows(self) -> Value:
        """Those of 16 rows: of int32 in their order, of int16 as _PLACES tell."""
        return joined(self.b, [self.b.bitcast(v, self.kind) for v in self.waiting])

    def _added(self, x: Value, y: Value) -> Value:
        b, count = self.b, x.type.count
        half = count // 2
        sides = [
            [
                row * half + lane + side
                for row in (0, 1)
                for lane in range(first, first + half // 2)
                for side in (0, count)
            ]
            for first in (0, half // 2)
        ]
        total = b.add(*(b.bitcast(pick(b, x, y, side), self.kind) for side in sides))
        return b.bitcast(total, ir.VectorType(ir.IntType(2 * x.type.element.width), half))


def multiply_pairs(
    b: ir.IRBuilder, fmt: Format, tile: Tile, sums: Value, x: Spread, x_scales: Spread, requests: Requests
) -> tuple[Value, list[Values], Values]:
    """The sums with the products of a super-block; its scales, and those of the whole."""
    scaling, scales, whole = scaling_of(fmt), list[Values](), NOTHING
    # Where the sum of a span fits into int16, sums of lanes may all be int16.
    short = scaling if isinstance(scaling, IntegerScales) and scaling.are_short else None
    pairs = [fmt.unpack(_Pair(b, [tile.rows[i], tile.rows[i + 4]], tile.size)) for i in _FIRST]
    for piece in fmt.unpack(_ScalesOnly(b, tile.rows, tile.size)):
        if isinstance(piece, Whole):
            whole = piece.values
        elif isinstance(piece, Scales):
            values, unit = piece.values, piece.unit
            scales.append(values)
            of_x = {i: _twice(b, x, 16 * i) for i in range(2 * scaling.SPANS * unit, 2 * scaling.SPANS * (unit + 1))}
            spans = [_Sums(b, _SHORTS if short else _INTS) for _ in range(scaling.SPANS)]
            for pair in pairs:
                for span, dot in zip(spans, _products(b, fmt, pair, of_x), strict=True):
                    span.put(dot.int16_sums() if short else dot.total())
                    requests.turn()
            totals = [span.of_rows() for span in spans]
            if isinstance(scaling, FloatScales):
                totals = [b.add(totals[0], scaling.minus_offset(b, x_scales, unit))]
            if short:
                first, second = totals
                both = pick(b, first, second, [place + of_second for place in _PLACES for of_second in (0, 16)])
                sums = short.add_paired(b, sums, b.bitcast(both, I32.vector), values, x_scales, unit)
            else:
                sums = scaling.add(b, sums, totals, values, x_scales, unit)
    return sums, scales, whole


def _twice(b: ir.IRBuilder, x: Spread, offset: int) -> Value:
    """16 bytes of x for both rows."""
    sixteen = load(b, x.at(offset).address, _HALF)
    return pick(b, sixteen, sixteen, [*range(16)] * 2)


def _products(b: ir.IRBuilder, fmt: Format, pieces: Iterator[Piece], of_x: dict[int, Value]) -> list[DotAccumulator]:
    """The products of two rows, block by block, up to the next scales."""
    dots = dict[int, DotAccumulator]()
    for piece in pieces:
        if not isinstance(piece, Part):
            break
        if piece.block not in dots:
            dots[piece.block] = start_dot4(b, ir.Constant(_INTS, None), fmt.BITS, is_signed(fmt))
        (u,) = piece.u.vectors
        dots[piece.block].add(u, of_x[2 * piece.block + piece.half])
    return list(dots.values())
