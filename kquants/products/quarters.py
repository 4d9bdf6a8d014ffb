"""One row of x times a tile of W, of which four rows share a register: words stay in their quarter of it.

16 rows take turns in fours. Of each, 64 bytes are loaded at once, and of four such registers words of 4 bytes change
places, but in their quarters: lane 4c + r of vector k then has word 4c + k of row r. That takes two instructions a
vector where a row in each lane takes three, and loads of half as much. Word k of each quarter of x goes four times to
a vector, once for all 16 rows. Sums have a row's columns in four lanes, each scaled for itself, until the end of the
super-block; what belongs to a row as a whole has a row in each lane, as elsewhere. All of it is exact in integers, so
that the bits are those of `kquants.products.super_blocks`.

A Zen 4 with AVX-512 multiplies Q4_K 1.07 times as fast so (weights in the caches, two threads: 75 and 80 GB/s). Whole
steps of Q4_K_M gain nothing by that alone, as they wait for the memory, but the time that it leaves goes to requests
(`kquants.products.requests`). Other CPUs with AVX-512, and formats whose bits lie in several places, were not measured.
"""

from collections.abc import Sequence

from llvmlite import ir

from kquants.compiler.cpu import is_wide_zen_4
from kquants.formats import q4_k
from kquants.formats.pieces import RAISED, Format, Values
from kquants.formats.quads import Quads, Value
from kquants.formats.tiles import Tile, load_side_by_side
from kquants.products.parts import Spread
from kquants.products.requests import Requests
from kquants.products.super_blocks import IntegerScales
from kquants.simd import I8_64, I32, computed_here, pick
from kquants.simd.dot4 import dot2, paired_shorts, start_dot4

_ZERO = ir.Constant(I32.vector, None)
_RAISED = ir.Constant(I32.vector, [RAISED] * 16)


def is_in_quarters(fmt: Format, rows: int, parts: int) -> bool:
    """Whether a format is multiplied so with so many rows of x, where rows of W come in so many parts."""
    return fmt is q4_k and rows == parts == 1 and is_wide_zen_4()


def multiply_quarters(
    b: ir.IRBuilder, tile: Tile, x: Spread, x_scales: Spread, requests: Requests
) -> tuple[Value, list[Values], Values]:
    """A of a super-block of Q4_K, from 0 on; its scales, and those of the whole, with a row in each lane."""
    scaling, narrow = IntegerScales(q4_k), Tile(b, tile.rows, tile.size, width=16)  # its first 16 bytes are no weights
    scales = [q4_k.scales_of(narrow, pair).values for pair in range(4)]
    scaled = [computed_here(b, scaling.with_exponents(b, v, x_scales, pair)) for pair, (v, _) in enumerate(scales)]
    sums = [_ZERO] * 4
    for half in range(2):  # 64 bytes of weights: blocks 4 · half + (0, 2) in the low nibbles, (1, 3) in the high ones
        words = [_words(b, x, 128 * half + 32 * odd) for odd in (0, 1)]
        for four in range(4):
            low, high = q4_k.nibbles(tile.quarters(4 * four, 16 + 64 * half))
            even, odd = (_dot(b, u, of_x, requests) for u, of_x in zip((low, high), words, strict=True))
            pairs = paired_shorts(b, even, b.ashr(odd, _RAISED, flags=("exact",)))
            of_rows = [16 * (i // 8) + 4 * four + i % 4 for i in range(16)]
            factors = pick(b, scaled[2 * half], scaled[2 * half + 1], of_rows)
            sums[four] = computed_here(b, dot2(b, sums[four], pairs, factors))
    return _sums_of_quarters(b, sums), scales, q4_k.whole(narrow).values


def _words(b: ir.IRBuilder, x: Spread, first: int) -> list[Value]:
    """Word k of each quarter of x, four times; x is the 32 bytes from `first` on, and those 64 bytes further on."""
    both = b.bitcast(load_side_by_side(b, x.address, first, first + 64), I32.vector)
    words = [computed_here(b, pick(b, both, both, [4 * (i // 4) + k for i in range(16)])) for k in range(4)]
    return [b.bitcast(word, I8_64.vector) for word in words]


def _dot(b: ir.IRBuilder, u: Quads, x: Sequence[Value], requests: Requests) -> Value:
    """The products of 16 bytes in each quarter."""
    dot = start_dot4(b, _ZERO, q4_k.BITS)
    for vector, word in zip(u.vectors, x, strict=True):
        dot.add(vector, word)
        requests.turn()
    return dot.total()


def _sums_of_quarters(b: ir.IRBuilder, fours: Sequence[Value]) -> Value:
    """The sums of lanes r, 4 + r, 8 + r and 12 + r, in lane 4i + r for the i-th four rows."""

    def added(x: Value, y: Value, lanes: list[list[int]]) -> Value:
        return b.add(*(pick(b, x, y, [*of_both, *(16 + lane for lane in of_both)]) for of_both in lanes))

    halves, quarters = [[*range(8)], [*range(8, 16)]], [[*range(4), *range(8, 12)], [*range(4, 8), *range(12, 16)]]
    first, second, third, fourth = fours
    return added(added(first, second, halves), added(third, fourth, halves), quarters)
