"""One row of x times a tile of W whose rows are multiplied one after the other: lanes are columns, and rows at the end.

Bytes of a row then need not go to 16 lanes, nor words of x to all of them; but each row scales its own spans, and each
has lanes to add up. Q6_K has scales that are bytes, and the most bytes to move. A Zen 4 with AVX2 alone multiplies it
1.2 times as fast so (2,024 instructions for a tile's super-block, a fifth of them for want of registers, became 1,491);
with 1.2B of Q4_K_M its steps of decode take 8 % less time. Others with AVX2 are taken to be like it, which was not
measured. With AVX-512 VNNI a Zen 4 gained 0 to 3 % of a step, so it has a row in each lane, as other CPUs have, and as
two and more rows of x have (with AVX2 they are faster so). Q4_K would gain little: its scales have 6 bits.

All is exact in integers, so that the bits are those of `kquants.matmul.super_blocks`: the products of a lane are an
int16, two of at most 63 · 127, scales with their power at most 1,024, and what a super-block adds to a lane is below
2^28.
"""

from llvmlite import ir

from kquants.activations.super_quantized import EXPONENTS_TWICE, HALF_SUMS
from kquants.compiler.cpu import lowering
from kquants.formats import q6_k
from kquants.formats.pieces import Format, Values
from kquants.formats.quads import Value
from kquants.formats.tiles import Row, Tile
from kquants.matmul.parts import Spread
from kquants.matmul.requests import Requests
from kquants.matmul.super_blocks import powers_of_two
from kquants.simd import at, call, computed_here, joined, load, pick

_BYTE, _SHORT, _INT = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_SCALES, _BYTES = ir.VectorType(_BYTE, 16), ir.VectorType(_BYTE, 32)
_SHORTS, _INTS = ir.VectorType(_SHORT, 16), ir.VectorType(_INT, 8)

_HALVES_APART = [*range(0, 16, 2), *range(1, 16, 2)]
"""Of 16 values, one for each half of a block, those of the first halves and then those of the second."""


def is_row_by_row(fmt: Format, rows: int, parts: int) -> bool:
    """Whether rows of a format are multiplied so with so many rows of x, where they come in so many parts."""
    return fmt is q6_k and rows == parts == 1 and lowering() == "AVX2"


def multiply_rows(b: ir.IRBuilder, tile: Tile, x: Spread, x_scales: Spread, requests: Requests) -> tuple[Value, Values]:
    """A of a tile's super-block, from 0 on, with a row in each lane, and what multiplies it."""
    of_x = _SuperBlock(b, x.address, x_scales.address)
    totals = [computed_here(b, of_x.multiply(row, requests)) for row in tile.rows]
    return _sums(b, totals), (tile.halves(q6_k.D_AT).value, None)


class _SuperBlock:
    """A super-block of x for all rows that meet it, one by one, in vectors of 256 bits: block by block."""

    def __init__(self, b: ir.IRBuilder, x: Value, x_scales: Value) -> None:
        self._b, self._x = b, x
        powers = b.bitcast(powers_of_two(b, load(b, at(b, x_scales, EXPONENTS_TWICE), _INTS)), _SHORTS)
        half_sums = load(b, at(b, x_scales, HALF_SUMS), _SHORTS)
        self._powers, self._half_sums = (computed_here(b, pick(b, v, v, _HALVES_APART)) for v in (powers, half_sums))

    def multiply(self, row: Value, requests: Requests) -> Value:
        """The products with the super-block of a row at an address, scaled, in several lanes."""
        b = self._b
        scales = load(b, at(b, row, q6_k.SCALES_AT), _SCALES)
        scales = b.sext(pick(b, scales, scales, _HALVES_APART), _SHORTS)
        # The sums of x have their powers already.
        minus = b.mul(_madd(b, scales, self._half_sums), ir.Constant(_INTS, [q6_k.OFFSET] * 8))
        scaled, total = b.mul(scales, self._powers), ir.Constant(_INTS, None)
        for block, u in enumerate(u for half in (0, 1) for u in q6_k.unpack_row(Row(b, row), half)):
            x = load(b, at(b, self._x, 32 * block), _BYTES)
            products = call(b, "llvm.x86.avx2.pmadd.ub.sw", _SHORTS, *u.vectors, x)
            total = b.add(total, _madd(b, products, _of_block(b, scaled, block)))
            if block % 2:
                requests.turn()
        return b.sub(total, minus)


def _sums(b: ir.IRBuilder, totals: list[Value]) -> Value:
    """The sums of the lanes of 16 vectors."""

    def neighbours(x: Value, y: Value) -> Value:
        places = [4 * half + 8 * of_y + i for half in (0, 1) for of_y in (0, 1) for i in (0, 2)]
        return b.add(pick(b, x, y, places), pick(b, x, y, [place + 1 for place in places]))

    for _ in range(2):
        totals = [neighbours(x, y) for x, y in zip(totals[::2], totals[1::2], strict=True)]
    halves = [[4 * half + 8 * of_y + i for of_y in (0, 1) for i in range(4)] for half in (0, 1)]
    pairs = zip(totals[::2], totals[1::2], strict=True)
    return joined(b, [b.add(*(pick(b, x, y, half) for half in halves)) for x, y in pairs])


def _madd(b: ir.IRBuilder, x: Value, y: Value) -> Value:
    """The sums of two products of int16 each."""
    return call(b, "llvm.x86.avx2.pmadd.wd", _INTS, x, y)


def _of_block(b: ir.IRBuilder, scales: Value, block: int) -> Value:
    """The scale of a block's first half in the first eight lanes, that of its second half in the others."""
    places = ir.Constant(_BYTES, [2 * block, 2 * block + 1] * 16)
    return b.bitcast(call(b, "llvm.x86.avx2.pshuf.b", _BYTES, b.bitcast(scales, _BYTES), places), _SHORTS)
