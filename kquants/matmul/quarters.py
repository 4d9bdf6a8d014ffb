"""One row of x times a tile of W, of which four rows at a time share a register, with four columns of each.

    loaded    row 0   word 0 … 3 | 4 … 7 | 8 … 11 | 12 … 15     64 bytes; so have rows 1, 2 and 3
    vector k          row 0 1 2 3 | 0 1 2 3 | 0 1 2 3 | 0 1 2 3
                      word      k |   4 + k |   8 + k |  12 + k
    x for it          word      k |   4 + k |   8 + k |  12 + k     four times each

So words of 4 bytes stay in their quarters: two instructions a vector move them, where a row in each lane takes three,
and loads of half as much. What x becomes serves all 16 rows. The sums of a row are in four lanes, each scaled for
itself, up to the end of the super-block; what belongs to a row as a whole has a row in each lane, as elsewhere. All is
exact in integers, so that the bits are those of `kquants.matmul.super_blocks`.

A Zen 4 with AVX-512 multiplies Q4_K 1.07 times as fast so (weights in the caches, two threads: 75 and 80 GB/s). Whole
steps of Q4_K_M gain nothing by that alone, as they wait for the memory, but the time that it leaves goes to requests
(`kquants.matmul.requests`). An Emerald Rapids multiplies it 1.07 times as fast, too, and its steps gain; Intel's
others with AVX-512 VNNI are taken to be like it, which was not measured. A Zen 5, and formats whose bits lie in several
places, were not measured.
"""

from collections.abc import Sequence

from llvmlite import ir

from kquants.compiler.cpu import is_wide_intel, is_wide_zen_4
from kquants.formats import q4_k
from kquants.formats.pieces import Format, Values, lowered
from kquants.formats.quads import Quads, Value
from kquants.formats.tiles import Tile, load_side_by_side
from kquants.matmul.parts import Spread
from kquants.matmul.requests import Requests
from kquants.matmul.super_blocks import IntegerScales
from kquants.simd import I8_64, I32, computed_here, of_each, pick
from kquants.simd.dot2 import dot2, pair_int16
from kquants.simd.dot4 import start_dot4

_ZERO = ir.Constant(I32.vector, None)


def is_in_quarters(fmt: Format, rows: int, parts: int) -> bool:
    """Whether a format is multiplied so with so many rows of x, where rows of W come in so many parts."""
    return fmt is q4_k and rows == parts == 1 and (is_wide_zen_4() or is_wide_intel())


def multiply_quarters(
    b: ir.IRBuilder, tile: Tile, x: Spread, x_scales: Spread, requests: Requests
) -> tuple[Value, list[Values], Values]:
    """A of a super-block of Q4_K, from 0 on; its scales, and those of the whole, with a row in each lane."""
    scaling, no_weights = IntegerScales(q4_k), Tile(b, tile.rows, q4_k.WEIGHTS_AT)  # or it would load some with them
    scales = [q4_k.scales_of(no_weights, pair).values for pair in range(4)]
    scaled = [computed_here(b, scaling.with_exponents(b, v, x_scales, pair)) for pair, (v, _) in enumerate(scales)]
    sums = [_ZERO] * 4
    for half in range(2):  # 64 bytes: in their low nibbles blocks 4 · half + (0, 2), in the high ones 4 · half + (1, 3)
        words = [_words(b, x, 128 * half + 32 * odd) for odd in (0, 1)]
        for four in range(4):
            nibbles = q4_k.nibbles(tile.quarters(4 * four, q4_k.WEIGHTS_AT + 64 * half))
            even, odd = (_dot(b, u, of_x, requests) for u, of_x in zip(nibbles, words, strict=True))
            of_rows = [16 * (i // 8) + 4 * four + i % 4 for i in range(16)]
            factors = pick(b, scaled[2 * half], scaled[2 * half + 1], of_rows)
            sums[four] = computed_here(b, dot2(b, sums[four], pair_int16(b, even, lowered(b, odd)), factors))
    return of_each(b, sums, b.add, distances=(4, 8)), scales, q4_k.whole(no_weights).values


def _words(b: ir.IRBuilder, x: Spread, first: int) -> list[Value]:
    """Of 32 bytes of x from `first` on, and 32 from `first` + 64 on, word k of each quarter, four times."""
    both = b.bitcast(load_side_by_side(b, x.address, first, first + 64), I32.vector)
    words = [computed_here(b, pick(b, both, both, [4 * (i // 4) + k for i in range(16)])) for k in range(4)]
    return [b.bitcast(word, I8_64.vector) for word in words]


def _dot(b: ir.IRBuilder, u: Quads, x: Sequence[Value], requests: Requests) -> Value:
    """The products of 16 bytes in each quarter."""
    dot = start_dot4(b, _ZERO)
    for vector, word in zip(u.vectors, x, strict=True):
        dot.add(vector, word)
        requests.turn()
    return dot.total()
