"""One row of x times a tile of W whose rows are multiplied one after the other: lanes are columns, and rows at the end.

Bytes of a row then need not go to 16 lanes, nor words of x to all of them; but each row scales its own spans, and each
has lanes to add up. Q6_K has scales that are bytes, and the most bytes to move. A Zen 4 with AVX2 alone multiplies it
1.2 times as fast so (2,024 instructions for a tile's super-block, a fifth of them for want of registers, became 1,491);
others with AVX2 are taken to be like it, which was not measured.

Vectors of 512 bits have two blocks side by side, and two rows share what scales them and adds them up. Before they did,
a Zen 4 was 1.08 times as fast so with whole rows, 1.15 to 1.2 times with parts (from the memory, one thread: 1.05 and
1.1): with a row in each lane, words of several parts go to all lanes by a permutation each, but vectors of x by none.
One thread then decoded a Q4_K_M model 2 to 5 % faster, two with fast memory 1 to 4. An Emerald Rapids was 1.05 to 1.1
times as fast with whole rows, and is 1.14 times as fast again since they do (677 instructions, not 850), which was not
measured on a Zen 4. Intel's others with AVX-512 VNNI and GFNI are taken to be like it, which was not measured. Without
GFNI it takes more instructions to unpack: such CPUs (a Cascade Lake) keep a row in each lane.

Other CPUs with AVX-512 or AVX-VNNI, which were not measured either, keep a row in each lane, and so do two and more
rows of x (with AVX2 they are faster so). Q4_K would gain little: its scales have 6 bits.

All is exact in integers, so that the bits are those of `kquants.matmul.super_blocks`: the products of a lane are an
int16, two of at most 63 · 120 (`_Narrow`) or four of at most 32 · 120 (`_Wide`), scales with their power at most 1,024,
and what a super-block adds to a lane is below 2^28.
"""

from llvmlite import ir

from kquants.activations.super_quantized import EXPONENTS_TWICE, HALF_SUMS
from kquants.compiler.cpu import has, is_wide_intel, is_wide_zen_4, lowering
from kquants.formats import q6_k
from kquants.formats.pieces import Format, Values
from kquants.formats.quads import Value
from kquants.formats.tiles import Row, Tile, load_side_by_side
from kquants.layout import TILE_ROWS
from kquants.matmul.parts import Apart
from kquants.matmul.requests import Requests
from kquants.matmul.super_blocks import powers_of_two
from kquants.simd import I8_64, I32, at, call, computed_here, joined, load, of_each, pick
from kquants.simd.dot2 import dot2, pack_int16
from kquants.simd.dot4 import start_dot4

_BYTE, _SHORT, _INT = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_SCALES, _BYTES = ir.VectorType(_BYTE, 16), ir.VectorType(_BYTE, 32)
_SHORTS, _INTS = ir.VectorType(_SHORT, 16), ir.VectorType(_INT, 8)

_ZERO = ir.Constant(I32.vector, None)
_HALVES_APART = [*range(0, 16, 2), *range(1, 16, 2)]
"""Of 16 values, one for each half of a block, those of the first halves and then those of the second."""


_IS_WIDE = (is_wide_zen_4() or is_wide_intel()) and has("gfni")
"""Whether vectors of 512 bits multiply so."""


def is_row_by_row(fmt: Format, rows: int, parts: int) -> bool:
    """Whether rows of a format are multiplied so with so many rows of x, where they come in so many parts.

    Of 16 parts no two rows of a tile have the same, as `_Wide` needs it; with AVX2 parts were not measured.
    """
    if fmt is not q6_k or rows > 1:
        return False
    return parts <= TILE_ROWS // _Wide.ROWS if _IS_WIDE else lowering() == "AVX2" and parts == 1


def multiply_rows(b: ir.IRBuilder, tile: Tile, x: Apart, x_scales: Apart, requests: Requests) -> tuple[Value, Values]:
    """A of a tile's super-block, from 0 on, with a row, or a part of one, in each lane, and what multiplies it."""
    way = _Wide if _IS_WIDE else _Narrow
    totals, order = list[Value](), list[int]()
    for part in range(x.parts):
        of_x = way(b, x.part_at(part), x_scales.part_at(part))  # one after the other: registers hold no more
        lanes = range(part, TILE_ROWS, x.parts)
        for i in range(0, len(lanes), way.ROWS):
            rows = [tile.rows[lane] for lane in lanes[i : i + way.ROWS]]
            totals.append(computed_here(b, of_x.multiply(rows, requests)))
        order += lanes
    sums = way.sums(b, totals)
    in_order = pick(b, sums, sums, [order.index(lane) for lane in range(TILE_ROWS)])
    return in_order, (tile.halves(q6_k.D_AT).value, None)


class _Narrow:
    """A super-block of x for all rows that meet it, one by one, in vectors of 256 bits: block by block."""

    ROWS = 1

    def __init__(self, b: ir.IRBuilder, x: Value, x_scales: Value) -> None:
        self._b, self._x = b, x
        powers = b.bitcast(powers_of_two(b, load(b, at(b, x_scales, EXPONENTS_TWICE), _INTS)), _SHORTS)
        half_sums = load(b, at(b, x_scales, HALF_SUMS), _SHORTS)
        self._powers, self._half_sums = (computed_here(b, pick(b, v, v, _HALVES_APART)) for v in (powers, half_sums))

    def multiply(self, rows: list[Value], requests: Requests) -> Value:
        """The products with the super-block of a row at an address, scaled, in several lanes."""
        b, (row,) = self._b, rows
        scales = load(b, at(b, row, q6_k.SCALES_AT), _SCALES)
        scales = b.sext(pick(b, scales, scales, _HALVES_APART), _SHORTS)
        # The sums of x have their powers already.
        minus = b.mul(_madd(b, scales, self._half_sums), ir.Constant(_INTS, [q6_k.OFFSET] * 8))
        scaled, total = b.mul(scales, self._powers), ir.Constant(_INTS, None)
        for block, u in enumerate(u for half in (0, 1) for u in q6_k.unpack_row(Row(b, row), half)):
            x = load_side_by_side(b, self._x, 32 * block)
            products = call(b, "llvm.x86.avx2.pmadd.ub.sw", _SHORTS, *u.vectors, x)
            total = b.add(total, _madd(b, products, _of_block(b, scaled, block)))
            if block % 2:
                requests.turn()
        return b.sub(total, minus)

    @staticmethod
    def sums(b: ir.IRBuilder, totals: list[Value]) -> Value:
        """The sums of the lanes of 16 vectors."""

        def neighbours(x: Value, y: Value) -> Value:
            places = [4 * half + 8 * of_y + i for half in (0, 1) for of_y in (0, 1) for i in (0, 2)]
            return b.add(pick(b, x, y, places), pick(b, x, y, [place + 1 for place in places]))

        for _ in range(2):
            totals = [neighbours(x, y) for x, y in zip(totals[::2], totals[1::2], strict=True)]
        halves = [[4 * half + 8 * of_y + i for of_y in (0, 1) for i in range(4)] for half in (0, 1)]
        pairs = zip(totals[::2], totals[1::2], strict=True)
        return joined(b, [b.add(*(pick(b, x, y, half) for half in halves)) for x, y in pairs])


class _Wide:
    """A super-block of x for all rows that meet it, two by two, in vectors of 512 bits: two blocks side by side."""

    ROWS = 2

    def __init__(self, b: ir.IRBuilder, x: Value, x_scales: Value) -> None:
        self._b = b
        exponents = load(b, at(b, x_scales, EXPONENTS_TWICE), _SHORTS)
        self._exponents = joined(b, [exponents] * 2)
        self._x = [load(b, at(b, x, 64 * i), I8_64.vector) for i in range(4)]
        offset = ir.Constant(I8_64.vector, [q6_k.OFFSET] * 64)
        # What dots begin with: -offset times the sums of x.
        self._starts = [computed_here(b, b.sub(_ZERO, self._dot(_ZERO, offset, v))) for v in self._x]

    def multiply(self, rows: list[Value], requests: Requests) -> Value:
        """The products with the super-blocks of two rows at addresses, scaled.

        Of each four lanes two are of the first row, two of the second.
        """
        b, total = self._b, _ZERO
        scales = joined(b, [load(b, at(b, row, q6_k.SCALES_AT), _SCALES) for row in rows])
        scales = b.shl(b.sext(scales, ir.VectorType(_SHORT, 32)), self._exponents)
        unpacked = [[u for half in (0, 1) for u in q6_k.unpack_pairs(Row(b, row), half)] for row in rows]
        for i, both in enumerate(zip(*unpacked, strict=True)):
            # Of eight int16 in a row four are of one row, four of the other: 16 weights of a span each. The next eight
            # are of the next span.
            dots = [self._dot(self._starts[i], u.vectors[0], self._x[i]) for u in both]
            requests.turn()
            spans = [4 * i + quarter + 16 * row for quarter in range(4) for row in (0, 1) for _ in range(4)]
            factors = b.bitcast(pick(b, scales, scales, spans), I32.vector)
            total = dot2(b, total, pack_int16(b, *dots), factors)
            requests.turn()
        return total

    def _dot(self, sums: Value, u: Value, x: Value) -> Value:
        dot = start_dot4(self._b, sums, q6_k.BITS)
        dot.add(u, x)
        return dot.total()

    @staticmethod
    def sums(b: ir.IRBuilder, totals: list[Value]) -> Value:
        """The sums of the lanes of eight vectors, of two rows each."""
        sums = of_each(b, totals, b.add, distances=(1, 4, 8))
        # Lane 4k + 2j + i is row j of vector 2k + i.
        return pick(b, sums, sums, [4 * k + 2 * j + i for k in range(4) for i in (0, 1) for j in (0, 1)])


def _madd(b: ir.IRBuilder, x: Value, y: Value) -> Value:
    """The sums of two products of int16 each."""
    return call(b, "llvm.x86.avx2.pmadd.wd", _INTS, x, y)


def _of_block(b: ir.IRBuilder, scales: Value, block: int) -> Value:
    """The scale of a block's first half in the first eight lanes, that of its second half in the others."""
    places = ir.Constant(_BYTES, [2 * block, 2 * block + 1] * 16)
    return b.bitcast(call(b, "llvm.x86.avx2.pshuf.b", _BYTES, b.bitcast(scales, _BYTES), places), _SHORTS)
