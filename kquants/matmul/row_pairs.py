"""One row of x times a tile of W of which two rows lie side by side in a register: 16 bytes of each.

Products then need 16 bytes of x, twice, and no bytes of W go to another lane. Sums do instead: those of a sub-block of
all rows become one vector with a row in each lane, while they are added up (`_PairSums`). Of 32 weights there are half
as many bytes of sums as of weights. The scales are unpacked with a row in each lane, as elsewhere. All sums are exact
integers, so that the bits are those of `kquants.matmul.row_per_lane`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from llvmlite import ir

from kquants.formats.packed_bytes import Floats, PackedBytes, Value, Words
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import (
    NOTHING,
    Format,
    HalfBlock,
    SuperBlockScales,
    UnitScales,
    Unpacked,
    Values,
    is_signed,
)
from kquants.layout import TILE_ROWS
from kquants.matmul.blocks import FloatScales
from kquants.matmul.prefetch import Prefetcher
from kquants.matmul.scaling import scaling_of
from kquants.matmul.split_k import XParts
from kquants.matmul.super_blocks import IntegerScales
from kquants.simd import F32, I8_64, I32, at, joined, load, shuffle
from kquants.simd.dot4 import start_dot4
from kquants.simd.dot_accumulator import DotAccumulator

_BYTE, _INT16, _INT = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_HALF = ir.VectorType(_BYTE, 16)
_INT16S, _INTS = ir.VectorType(_INT16, 16), ir.VectorType(_INT, 8)

_FIRST = [0, 1, 2, 3, 8, 9, 10, 11]
"""The first row of each pair; the other is four rows further on: so sums of 32 bits end in the order of the rows."""

_PLACES = [([*_FIRST, *(row + 4 for row in _FIRST)]).index(row) for row in range(TILE_ROWS)]
"""Lane of each row in int16 sums."""


@dataclass(frozen=True)
class _RowPair(Tile):
    """Two rows; formats find their weights there, but no scales."""

    def packed(self, offset: int) -> PackedBytes:
        """16 bytes of each, one behind the other."""
        b, begin = self.b, self.start + offset
        if begin not in self.columns:
            self.columns[begin] = [joined(b, [load(b, at(b, row, begin), _HALF) for row in self.rows])]
        return PackedBytes(b, self.columns[begin])

    def word(self, offset: int) -> Words:
        """Zeros: this view has no scales."""
        return Words(self.b, ir.Constant(I32.vector, None))

    def half(self, offset: int) -> Floats:
        """Zeros: this view has no scales."""
        return Floats(self.b, ir.Constant(F32.vector, None))


@dataclass(frozen=True)
class _ScalesOnly(Tile):
    """16 rows; formats find their scales there, but no weights."""

    def packed(self, offset: int) -> PackedBytes:
        """Zeros: this view has no weights."""
        return PackedBytes(self.b, [ir.Constant(I8_64.vector, None)] * 4)

    def half(self, offset: int) -> Floats:
        """Loaded row by row, where its column is not there yet."""
        if self._place(self.start + offset)[0] in self.columns:
            return super().half(offset)
        return self.halves(offset)


@dataclass(frozen=True)
class _PairSums:
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
        """The sums of 16 rows: int32 in the order of the rows, int16 in the lanes of _PLACES."""
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
        total = b.add(*(b.bitcast(shuffle(b, x, y, side), self.kind) for side in sides))
        return b.bitcast(total, ir.VectorType(ir.IntType(2 * x.type.element.width), half))


def multiply_row_pairs(
    b: ir.IRBuilder,
    fmt: Format,
    tile: Tile,
    sums: list[Value],
    x: list[XParts],
    x_scales: list[XParts],
    prefetcher: Prefetcher,
) -> tuple[list[Values], Values]:
    """What `kquants.matmul.row_per_lane` does, for one row of x."""
    of_row, of_row_scales = x[0], x_scales[0]
    scaling, scales, whole = scaling_of(fmt), list[Values](), NOTHING
    # Where the sum of a sub_block fits into int16, sums of lanes may all be int16.
    exact = scaling if isinstance(scaling, IntegerScales) and scaling.fit_int16 else None
    pairs = [fmt.unpack(_RowPair(b, [tile.rows[i], tile.rows[i + 4]], tile.size)) for i in _FIRST]
    for found in fmt.unpack(_ScalesOnly(b, tile.rows, tile.size)):
        if isinstance(found, SuperBlockScales):
            whole = found.values
        elif isinstance(found, UnitScales):
            values, unit = found.values, found.unit
            scales.append(values)
            halves = 2 * scaling.SUB_BLOCKS
            of_x = {i: _twice(b, of_row, 16 * i) for i in range(halves * unit, halves * (unit + 1))}
            sub_blocks = [_PairSums(b, _INT16S if exact else _INTS) for _ in range(scaling.SUB_BLOCKS)]
            for pair in pairs:
                for sub_block, dot in zip(sub_blocks, _products(b, fmt, pair, of_x), strict=True):
                    sub_block.put(dot.int16_sums() if exact else dot.total())
                    prefetcher.step()
            totals = [sub_block.of_rows() for sub_block in sub_blocks]
            if isinstance(scaling, FloatScales):
                totals = [b.add(totals[0], scaling.minus_offset(b, of_row_scales, unit, 0))]
            if exact:
                first, second = totals
                both = shuffle(b, first, second, [place + of_second for place in _PLACES for of_second in (0, 16)])
                sums[0] = exact.add_paired(b, sums[0], b.bitcast(both, I32.vector), values, of_row_scales, unit)
            else:
                sums[0] = scaling.add(b, sums[0], totals, values, of_row_scales, unit)
    return scales, whole


def _twice(b: ir.IRBuilder, x: XParts, offset: int) -> Value:
    """16 bytes of x for both rows."""
    sixteen = load(b, x.at(offset).address, _HALF)
    return shuffle(b, sixteen, sixteen, [*range(16)] * 2)


def _products(
    b: ir.IRBuilder, fmt: Format, unpacked: Iterator[Unpacked], of_x: dict[int, Value]
) -> list[DotAccumulator]:
    """The products of two rows, block by block, up to the next scales."""
    dots = dict[int, DotAccumulator]()
    for found in unpacked:
        if not isinstance(found, HalfBlock):
            break
        if found.block not in dots:
            dots[found.block] = start_dot4(b, ir.Constant(_INTS, None), fmt.BITS, is_signed(fmt))
        (u,) = found.u.vectors
        dots[found.block].add(u, of_x[2 * found.block + found.half])
    return list(dots.values())
