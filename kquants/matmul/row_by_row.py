"""One row of x times a tile of W whose rows are multiplied one by one: lanes are columns, and rows at the end.

Bytes of a row then need not go to 16 lanes, nor words of x to all of them; but each row scales its own sub-blocks, and
has lanes to add up. That suits Q6_K, which has scales that are bytes, and the most bytes to move, and the formats of
grids, whose points are loaded one by one anyway. (AVX2, instructions for a tile's super-block: IQ2_XXS 3,350, Q6_K
1,950; with a row in each lane Q6_K 2,024, a fifth of them for want of registers.) It needs AVX2.

vpmaddubsw multiplies unsigned bytes by signed ones: where weights are magnitudes, x gets their signs.

All is exact in integers, so that the bits are those of `kquants.matmul.row_per_lane`: the products of a lane are an
int16, two of at most 63 · 127, scales with their power at most 1,024, and what a super-block adds to a lane is below
2^28.
"""

from llvmlite import ir
from numba.core import cgutils

from kquants.activations.super_quantized import EXPONENTS_TWICE, HALF_SUMS
from kquants.formats.packed_bytes import Value
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import Values
from kquants.formats.weight_row import RowBlock, RowFormat, UnpackedRow, WeightRow
from kquants.layout import TILE_ROWS
from kquants.matmul.prefetch import Prefetcher
from kquants.matmul.split_k import XParts
from kquants.matmul.super_blocks import powers_of_two
from kquants.simd import at, call, computed_here, joined, load, shuffle
from kquants.simd.dot2 import dot2

_BYTE, _INT16, _INT, _LONG = (ir.IntType(n) for n in (8, 16, 32, 64))
_BYTES = ir.VectorType(_BYTE, 32)
_INT16S, _INTS = ir.VectorType(_INT16, 16), ir.VectorType(_INT, 8)

_HALVES_APART = [*range(0, 16, 2), *range(1, 16, 2)]
"""Of 16 values, one for each half of a block, those of the first halves and then those of the second."""

_ROWS = 2
"""Rows that are multiplied side by side: they share what is loaded of x.

(Measured on Emerald Rapids with AVX2 alone and with AVX-VNNI: IQ2_XXS 2 to 13 % faster than row after row, IQ3_XXS up
to 4 %, Q6_K alike. Four rows, for which there are no registers: up to a third slower.)
"""


def multiply_row_by_row(
    b: ir.IRBuilder,
    fmt: RowFormat,
    tile: Tile,
    sums: list[Value],
    x: list[XParts],
    x_scales: list[XParts],
    prefetcher: Prefetcher,
) -> tuple[list[Values], Values]:
    """What `kquants.matmul.row_per_lane` does, for one row of x and formats with super-blocks."""
    of_x = _XSuperBlock(b, x[0].address, x_scales[0].address)
    slot = cgutils.alloca_once(b, ir.ArrayType(_INTS, TILE_ROWS))
    slot.align = 32
    # In a loop, as most CPUs do not keep the instructions of all 16 rows decoded.
    with cgutils.for_range(b, _LONG(TILE_ROWS // _ROWS)) as loop:
        first = b.mul(loop.index, _LONG(_ROWS))
        places = [b.add(first, _LONG(i)) for i in range(_ROWS)]
        rows = [tile.row(place) for place in places]
        unpacked = [fmt.unpack_row(WeightRow(b, row)) for row in rows]
        totals = of_x.multiply(unpacked, prefetcher.beside(first, rows, steps=fmt.BLOCKS))
        for place, total in zip(places, totals, strict=True):
            b.store(total, b.gep(slot, [_LONG(0), place]), align=32)
    sums[0] = _sums(b, [b.load(b.gep(slot, [_LONG(0), _LONG(i)]), align=32) for i in range(TILE_ROWS)])
    return [], (fmt.row_factors(tile).value, None)


class _XSuperBlock:
    """A super-block of x, multiplied by a few rows of W at once, block by block, in vectors of 256 bits."""

    def __init__(self, b: ir.IRBuilder, x: Value, x_scales: Value) -> None:
        self._b, self._x = b, x
        powers = b.bitcast(powers_of_two(b, load(b, at(b, x_scales, EXPONENTS_TWICE), _INTS)), _INT16S)
        half_sums = load(b, at(b, x_scales, HALF_SUMS), _INT16S)
        self._powers, self._half_sums = (computed_here(b, shuffle(b, v, v, _HALVES_APART)) for v in (powers, half_sums))

    def multiply(self, rows: list[UnpackedRow], prefetcher: Prefetcher) -> list[Value]:
        """The products with the super-block of each row, scaled, in several lanes."""
        b = self._b
        scaled = [b.mul(row.scales, self._powers) for row in rows]
        totals = [self._minus_offset(row) for row in rows]
        for block, of_rows in enumerate(zip(*(row.blocks for row in rows), strict=True)):
            x = load(b, at(b, self._x, 32 * block), _BYTES)
            for i, found in enumerate(of_rows):
                totals[i] = dot2(b, totals[i], self._products(found, x), _of_block(b, scaled[i], block))
            prefetcher.step()
        prefetcher.finish()
        return totals

    def _minus_offset(self, row: UnpackedRow) -> Value:
        """What the offset of u adds to the products, negated."""
        b, zero = self._b, ir.Constant(_INTS, None)
        if not row.offset:
            return zero
        # The sums of x have their powers already.
        sums = dot2(b, zero, b.bitcast(row.scales, _INTS), b.bitcast(self._half_sums, _INTS))
        return b.mul(sums, ir.Constant(_INTS, [-row.offset] * 8))

    def _products(self, found: RowBlock, x: Value) -> Value:
        """Two int16 in each lane, each of them the sum of two products."""
        if found.signs is not None:
            x = call(self._b, "llvm.x86.avx2.psign.b", _BYTES, x, found.signs)
        return self._b.bitcast(call(self._b, "llvm.x86.avx2.pmadd.ub.sw", _INT16S, found.u, x), _INTS)


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


def _of_block(b: ir.IRBuilder, scales: Value, block: int) -> Value:
    """The scale of a block's first half in the first eight lanes, that of its second half in the others; in pairs."""
    places = ir.Constant(_BYTES, [2 * block, 2 * block + 1] * 16)
    return b.bitcast(call(b, "llvm.x86.avx2.pshuf.b", _BYTES, b.bitcast(scales, _BYTES), places), _INTS)
