"""Rows of W in parts, whose sums are added up in their order: y = ((part 0 + part 1) + part 2) + part 3 …

That is, rows whose tiles are larger than `LARGE`, in four parts or, if those are too large, too, in eight or 16 (see
`choices`), with as many groups of columns in each part; other numbers of columns stay whole. Decode then reads tiles of
16 parts, those of four rows, two or one, which lie behind each other in the file, instead of 16 rows. What a Zen 5 asks
for ahead, into the first-level cache, then stays there until it is read, or more of it. Of tiles of 27 to 136 KB it
does not, and a load from the second level waits for room that requests take: with slow memory it read them at 0.82 to
0.93 of its bandwidth, and steps of decode gained 3 to 5 %. Rows of 8,192 columns it read so: Q8_0 in four parts (tiles
of 34 KB) at 0.87, in eight (17 KB) at 0.94; Q6_K in four (27 KB) at 0.86 to 0.92, in 16 (7 KB) at 0.91 to 1.0. As what
is large, and in how many parts it comes, depends on the CPU, so do the bits of a model. Where it is arithmetic that
takes the time, all rows stay whole, and so do Intel's (see `WHOLE`), and on a Zen 4 with AVX-512 most (see `choices`).

Lane i then holds part i % parts of a row, and meets that part of x. So the words of 4 bytes of a row of x are
interleaved: one from each part, side by side (`Spread`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.cpu import is_intel, is_wide_zen_4, lowering
from kquants.compiler.decorators import inline
from kquants.formats import q6_k
from kquants.formats.pieces import Format
from kquants.formats.quads import Value
from kquants.layout import TILE_ROWS, X_GROUP
from kquants.simd import F32, I32, VectorType, at, define, load, pick, pointer, times

WHOLE = is_intel() or lowering() in ("AVX2", "SSSE3", "plain vectors")
"""Whether no row comes in parts on this CPU. Words of several parts side by side are more work than one word for all 16
lanes: a Zen 4 that has AVX2 alone multiplies whole rows of 2,048 to 8,192 columns faster, Q4_K by 9 to 11 %, Q5_K by
28, Q6_K by 15 to 23, Q8_0 by 5 to 7 (one thread; two: 7 to 13, 20, 10 to 18, up to 11). 1.2B of Q4_K_M are decoded 10 %
faster with one thread, 6 with two, of Q8_0 3. CPUs with less than AVX2 were not measured.

An Intel CPU is asked for what it reads next row by row (`kquants.matmul.requests`), which makes up for large tiles:
an Emerald Rapids reads whole rows as fast as parts, of Q4_K and 8,192 columns 3 % faster. Where it uses AVX2 or
AVX-VNNI alone, steps of Q4_K_M gain 2 % by whole rows, those of Q8_0 2 to 3. Intel's others are taken to be like it,
which was not measured."""

FEW = 4
"""Parts of a row whose tile is large, if they are not too large as well."""

LARGE = 20 << 10
"""Bytes of the largest tile that never comes in parts: such tiles stay in a Zen 5's first-level cache of 48 KB, with
what is asked for beside them. Others whose rows come in parts are taken to be like it, which was not measured."""

VERY_LARGE = 80 << 10
"""Bytes of a tile beyond which it comes in more than four parts, where the format and its columns allow that."""

_MANY = {5: 16, 6: 16, 7: 8, 8: 8}
"""By the bits of a format, how many parts come in place of four that are too large. Q6_K gains nothing by eight, Q8_0
no more by 16. Of Q4_K, four parts of 8,192 columns are small enough. (Of 14,336 and 16,384 columns, eight and 16 would
gain 2 to 6 %, but to compile one more choice takes a third longer.) By bits, not by bytes in a file, MXFP4 is like
those of five, and IQ4_NL and IQ4_XS, of seven, are taken to be like Q8_0; they were not measured."""


def choices(fmt: Format) -> list[int]:
    """In how many parts rows of a format may come if they are not whole, most first.

    A Zen 4 with AVX-512 wants parts of Q6_K alone: steps of a Q4_K_M
    file with 1.2B take 3 % longer with whole rows. Four parts, as 16 take 1.2 times as long (8,192 columns) for one row
    of x and as long for two; eight rows are 4 % faster in four, prompts 3 %. With whole rows of other formats steps
    with one row of x take 1 to 1.5 % less time (Q4_K, Q5_K, Q4_0, Q2_K, Q8_0; of Q3_K 1 % more), those with four rows
    are 1.03 (Q3_K), 1.06 (Q8_0), 1.09 (Q4_0), 1.12 (Q2_K) and 1.32 times (Q5_K) as fast, and with Q4_K of 14,336
    columns 1.2 times; prompts are read as fast. The rest was not measured.
    """
    if is_wide_zen_4():
        return [FEW] if fmt is q6_k else []
    return [] if WHOLE else sorted({_MANY.get(fmt.BITS, FEW), FEW}, reverse=True)


def parts_of(fmt: Format) -> Any:
    """`parts_of(columns, row_bytes)`: in how many parts rows of W come; 1 for whole ones."""
    may_be = tuple(choices(fmt))

    @inline
    def parts_of(columns: int, row_bytes: int) -> int:
        tile_bytes = TILE_ROWS * row_bytes
        for parts in may_be:
            if tile_bytes > (LARGE if parts == FEW else VERY_LARGE) and columns % (parts * X_GROUP) == 0:
                return parts
        return 1

    return parts_of if may_be else _whole  # Numba has no loop over nothing


@inline
def _whole(columns: int, row_bytes: int) -> int:
    return 1


@dataclass(frozen=True)
class Spread:
    """Where a row of x lies, of one part or of several whose words are interleaved; offsets are those in each part."""

    b: ir.IRBuilder
    address: Value
    parts: int = 1

    def at(self, *offsets: Value | int) -> "Spread":
        """Some bytes on."""
        return Spread(self.b, at(self.b, self.address, *(times(self.b, n, self.parts) for n in offsets)), self.parts)

    def load(self, word: ir.Type, of: Callable[[Value], Value] = lambda words: words) -> Value:
        """For each lane the word that it meets, or what `of` makes of that: lane i has part i % parts of a row of W."""
        words = of(load(self.b, self.address, ir.VectorType(word, self.parts)))
        return pick(self.b, words, words, [lane % self.parts for lane in range(TILE_ROWS)])


def _load_strided(b: ir.IRBuilder, address: Value, stride: Value, count: int, element: VectorType) -> list[Value]:
    return [load(b, at(b, address, times(b, stride, k)), element.vector) for k in range(count)]


def _in_turn(b: ir.IRBuilder, vectors: list[Value], first: int, count: int) -> Value:
    """So many words of each vector from the first on: one of each, then the next of each."""
    if len(vectors) == 1:
        return pick(b, vectors[0], vectors[0], range(first, first + count))
    half = len(vectors) // 2
    low, high = (_in_turn(b, some, first, count) for some in (vectors[:half], vectors[half:]))
    lanes = [half * word + lane + side for word in range(count) for side in (0, half * count) for lane in range(half)]
    return pick(b, low, high, lanes)


def interleave(parts: int) -> Any:
    """An operation: store 16 words of each part in turn, [16][parts]. Arguments: to, words, bytes between the parts."""

    @define(types.none, *[types.int64] * 3)
    def store(b: ir.IRBuilder, to: Value, words: Value, stride: Value) -> None:
        vectors, count = _load_strided(b, words, stride, parts, I32), TILE_ROWS // parts
        for i in range(parts):
            mixed = _in_turn(b, vectors, count * i, count)
            b.store(mixed, pointer(b, at(b, to, 64 * i), I32.vector), align=64)

    return store


def add_parts(parts: int) -> Any:
    """An operation: store the sums of 16 rows, given those of their parts.

    Arguments: y, the sums, bytes between their vectors, each of which has all parts of 16 / parts rows.
    """

    @define(types.none, *[types.int64] * 3)
    def store(b: ir.IRBuilder, y: Value, sums: Value, stride: Value) -> None:
        vectors = _load_strided(b, sums, stride, parts, F32)
        total: Value = None
        for part in range(parts):
            pieces = [pick(b, v, v, range(part, TILE_ROWS, parts)) for v in vectors]
            while len(pieces) > 1:
                both = range(2 * pieces[0].type.count)
                pieces = [pick(b, x, y, both) for x, y in zip(pieces[::2], pieces[1::2], strict=True)]
            total = b.fadd(total, pieces[0]) if part else pieces[0]
        b.store(total, pointer(b, y, F32.vector), align=64)

    return store
