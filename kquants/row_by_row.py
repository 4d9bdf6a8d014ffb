"""One row of x times a tile of W whose rows are multiplied one after the other: lanes are columns, and rows at the end.

Bytes of a row then need not go to 16 lanes, nor words of x to all of them; but each row scales its own spans, and each
has lanes to add up. A Zen 4 with AVX2 alone multiplies Q6_K 1.2 times as fast so: it has scales that are bytes, and the
most bytes to move (2,024 instructions for a tile's super-block, a fifth of them for want of registers, became 1,491).
Q4_K would gain little: its scales have 6 bits. Two rows of x are faster with a row of W in each lane. Other CPUs with
AVX2 are taken to be like it, which was not measured.

All is exact in integers, so that the bits are those of `kquants.super_blocks`: two products are at most 2 · 63 · 127,
an int16, scales with their power at most 1,024, and what eight blocks add to a lane below 2^28.
"""

from llvmlite import ir

from kquants.cpu import lowering
from kquants.formats import q6_k
from kquants.parts import Spread
from kquants.pieces import Format, Values
from kquants.quads import Value
from kquants.requests import Requests
from kquants.simd import at, call, computed_here, joined, load, pick
from kquants.super_activations import EXPONENTS_TWICE, HALF_SUMS
from kquants.super_blocks import powers_of_two
from kquants.tiles import Row, Tile

_BYTE, _SHORT, _INT = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_BYTES, _SHORTS, _INTS = ir.VectorType(_BYTE, 32), ir.VectorType(_SHORT, 16), ir.VectorType(_INT, 8)

_HALVES_APART = [*range(0, 16, 2), *range(1, 16, 2)]
"""Of 16 values, one for each half of a block, those of the first halves and then those of the second."""


def is_row_by_row(fmt: Format, rows: int, parts: int) -> bool:
    """Whether rows of a format are multiplied so with so many rows of x, where they come in so many parts."""
    return fmt is q6_k and rows == parts == 1 and lowering() == "AVX2"


def multiply_rows(b: ir.IRBuilder, tile: Tile, x: Spread, x_scales: Spread, requests: Requests) -> tuple[Value, Values]:
    """A of a tile's super-block, from 0 on, with a row in each lane, and what multiplies it."""
    powers = b.bitcast(powers_of_two(b, load(b, at(b, x_scales.address, EXPONENTS_TWICE), _INTS)), _SHORTS)
    powers, half_sums = (
        computed_here(b, pick(b, v, v, _HALVES_APART))
        for v in (powers, load(b, at(b, x_scales.address, HALF_SUMS), _SHORTS))
    )
    totals = list[Value]()
    for row in tile.rows:
        scales = load(b, at(b, row, q6_k.SCALES_AT), ir.VectorType(_BYTE, 16))
        scales = b.sext(pick(b, scales, scales, _HALVES_APART), _SHORTS)
        # The sums of x have their powers already.
        minus = b.mul(_madd(b, scales, half_sums), ir.Constant(_INTS, [q6_k.OFFSET] * 8))
        scaled, total = b.mul(scales, powers), ir.Constant(_INTS, None)
        for block, u in enumerate(q6_k.unpack_row(Row(b, row))):
            of_x = load(b, at(b, x.address, 32 * block), _BYTES)
            products = call(b, "llvm.x86.avx2.pmadd.ub.sw", _SHORTS, *u.vectors, of_x)
            total = b.add(total, _madd(b, products, _of_block(b, scaled, block)))
            if block % 2:
                requests.turn()
        totals.append(computed_here(b, b.sub(total, minus)))
    return _sums_of_lanes(b, totals), (tile.halves(q6_k.D_AT).value, None)


def _madd(b: ir.IRBuilder, x: Value, y: Value) -> Value:
    """The sums of two products of int16 each."""
    return call(b, "llvm.x86.avx2.pmadd.wd", _INTS, x, y)


def _of_block(b: ir.IRBuilder, scales: Value, block: int) -> Value:
    """The scale of a block's first half in the first eight lanes, that of its second half in the others."""
    places = ir.Constant(_BYTES, [2 * block, 2 * block + 1] * 16)
    return b.bitcast(call(b, "llvm.x86.avx2.pshuf.b", _BYTES, b.bitcast(scales, _BYTES), places), _SHORTS)


def _sums_of_lanes(b: ir.IRBuilder, vectors: list[Value]) -> Value:
    """The sums of the eight lanes of 16 vectors, 16 int32."""

    def neighbours(x: Value, y: Value) -> Value:
        lanes = [[4 * half + 8 * of_y + i for half in (0, 1) for of_y in (0, 1) for i in (k, k + 2)] for k in (0, 1)]
        return b.add(*(pick(b, x, y, some) for some in lanes))

    for _ in range(2):
        vectors = [neighbours(x, y) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
    halves = [[4 * half + 8 * of_y + i for of_y in (0, 1) for i in range(4)] for half in (0, 1)]
    pairs = zip(vectors[::2], vectors[1::2], strict=True)
    return joined(b, [b.add(*(pick(b, x, y, half) for half in halves)) for x, y in pairs])
