"""One row of x times a tile of Q6_K whose rows are multiplied one by one: lanes are columns, and rows at the end.

Bytes of a row then need not go to 16 lanes, nor words of x to all of them; but each row scales its own sub-blocks, and
has lanes to add up. Q6_K has scales that are bytes, and the most bytes to move. (AVX2: 1,491 instructions for a tile's
super-block; with a row in each lane 2,024, a fifth of them for want of registers.) It needs AVX2.

All is exact in integers, so that the bits are those of `kquants.matmul.row_per_lane`: the products of a lane are an
int16, two of at most 63 · 127, scales with their power at most 1,024, and what a super-block adds to a lane is below
2^28.
"""

from llvmlite import ir

from kquants.activations.super_quantized import EXPONENTS_TWICE, HALF_SUMS
from kquants.formats import q6_k
from kquants.formats.packed_bytes import Value
from kquants.formats.tiles import Tile, WeightRow
from kquants.formats.unpacking import Format, Values
from kquants.matmul.prefetch import Prefetcher
from kquants.matmul.split_k import XParts
from kquants.matmul.super_blocks import powers_of_two
from kquants.simd import at, call, computed_here, joined, load, shuffle

_BYTE, _INT16, _INT = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_SCALES, _BYTES = ir.VectorType(_BYTE, 16), ir.VectorType(_BYTE, 32)
_INT16S, _INTS = ir.VectorType(_INT16, 16), ir.VectorType(_INT, 8)

_HALVES_APART = [*range(0, 16, 2), *range(1, 16, 2)]
"""Of 16 values, one for each half of a block, those of the first halves and then those of the second."""


def multiply_row_by_row(
    b: ir.IRBuilder,
    fmt: Format,
    tile: Tile,
    sums: list[Value],
    x: list[XParts],
    x_scales: list[XParts],
    prefetcher: Prefetcher,
) -> tuple[list[Values], Values]:
    """What `kquants.matmul.row_per_lane` does, for one row of x and Q6_K."""
    of_x = _XSuperBlock(b, x[0].address, x_scales[0].address)
    totals = [computed_here(b, of_x.multiply(row, prefetcher)) for row in tile.rows]
    sums[0] = _sums(b, totals)
    return [], (tile.halves(q6_k.D_AT).value, None)


class _XSuperBlock:
    """A super-block of x, multiplied by one row of W after the other, block by block, in vectors of 256 bits."""

    def __init__(self, b: ir.IRBuilder, x: Value, x_scales: Value) -> None:
        self._b, self._x = b, x
        powers = b.bitcast(powers_of_two(b, load(b, at(b, x_scales, EXPONENTS_TWICE), _INTS)), _INT16S)
        half_sums = load(b, at(b, x_scales, HALF_SUMS), _INT16S)
        self._powers, self._half_sums = (computed_here(b, shuffle(b, v, v, _HALVES_APART)) for v in (powers, half_sums))

    def multiply(self, row: Value, prefetcher: Prefetcher) -> Value:
        """The products with the super-block of a row at an address, scaled, in several lanes."""
        b = self._b
        scales = load(b, at(b, row, q6_k.SCALES_AT), _SCALES)
        scales = b.sext(shuffle(b, scales, scales, _HALVES_APART), _INT16S)
        # The sums of x have their powers already.
        minus = b.mul(_madd(b, scales, self._half_sums), ir.Constant(_INTS, [q6_k.OFFSET] * 8))
        scaled, total = b.mul(scales, self._powers), ir.Constant(_INTS, None)
        for block, u in enumerate(u for half in (0, 1) for u in q6_k.unpack_row(WeightRow(b, row), half)):
            x = load(b, at(b, self._x, 32 * block), _BYTES)
            products = call(b, "llvm.x86.avx2.pmadd.ub.sw", _INT16S, *u.vectors, x)
            total = b.add(total, _madd(b, products, _of_block(b, scaled, block)))
            if block % 2:
                prefetcher.step()
        return b.sub(total, minus)


def _sums(b: ir.IRBuilder, totals: list[Value]) -> Value:
    """The sums of the lanes of 16 vectors."""

    def pair_sums(x: Value, y: Value) -> Value:
        places = [4 * half + 8 * of_y + i for half in (0, 1) for of_y in (0, 1) for i in (0, 2)]
        return b.add(shuffle(b, x, y, places), shuffle(b, x, y, [place + 1 for place in places]))

    for _ in range(2):
        totals = [pair_sums(x, y) for x, y in zip(totals[::2], totals[1::2], strict=True)]
    halves = [[4 * half + 8 * of_y + i for of_y in (0, 1) for i in range(4)] for half in (0, 1)]
    pairs = zip(totals[::2], totals[1::2], strict=True)
    return joined(b, [b.add(*(shuffle(b, x, y, half) for half in halves)) for x, y in pairs])


def _madd(b: ir.IRBuilder, x: Value, y: Value) -> Value:
    """The sums of two products of int16 each."""
    return call(b, "llvm.x86.avx2.pmadd.wd", _INTS, x, y)


def _of_block(b: ir.IRBuilder, scales: Value, block: int) -> Value:
    """The scale of a block's first half in the first eight lanes, that of its second half in the others."""
    places = ir.Constant(_BYTES, [2 * block, 2 * block + 1] * 16)
    return b.bitcast(call(b, "llvm.x86.avx2.pshuf.b", _BYTES, b.bitcast(scales, _BYTES), places), _INT16S)
