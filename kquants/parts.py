"""Rows of W in four parts, whose sums are added up in their order: y = ((part 0 + part 1) + part 2) + part 3.

That is, rows whose tiles are larger than `LARGE`, with as many groups of columns in each part; other numbers of columns
stay whole. Decode then reads tiles of 16 parts, those of four rows, which lie behind each other in the file, instead
of 16 rows: what it asks for ahead stays in the first-level cache until it is read, or more of it. Of tiles of 27 to 139
KB it does not, and a load from the second level waits for room that requests take: a Zen 5 with slow memory read them
at 0.82 to 0.93 of its bandwidth, and steps of decode gained 3 to 5 %.

Lane i then holds part i % 4 of a row, and meets that part of x. So the words of 4 bytes of a row of x are interleaved:
one from each part, side by side.
"""

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir
from numba import types

from kquants.decorators import inline
from kquants.layout import TILE_ROWS, X_GROUP
from kquants.quads import Value
from kquants.simd import F32, I32, VectorType, at, define, load, pointer, times

PARTS = 4
"""Parts of a row. With eight, tiles become so small that their beginnings and ends cost more than the rest gains."""

LARGE = 20 << 10
"""Bytes of the largest tile that stays in a first-level cache of 48 KB, with what is asked for beside it."""

_INT = ir.IntType(32)


@inline
def come_in_parts(columns: int, row_bytes: int) -> bool:
    """Whether rows of W do."""
    return TILE_ROWS * row_bytes > LARGE and columns % (PARTS * X_GROUP) == 0


@dataclass(frozen=True)
class Spread:
    """Where a row of x lies, of one part or of PARTS whose words are interleaved; offsets are those in each part."""

    b: ir.IRBuilder
    address: Value
    parts: int = 1

    def at(self, *offsets: Value | int) -> "Spread":
        """Some bytes on."""
        return Spread(self.b, at(self.b, self.address, *(times(self.b, n, self.parts) for n in offsets)), self.parts)

    def load(self, word: ir.Type, of: Callable[[Value], Value] = lambda words: words) -> Value:
        """For each lane the word that it meets, or what `of` makes of that: lane i has part i % parts of a row of W."""
        words = of(load(self.b, self.address, ir.VectorType(word, self.parts)))
        return _pick(self.b, words, words, [lane % self.parts for lane in range(TILE_ROWS)])


def _pick(b: ir.IRBuilder, first: Value, second: Value, lanes: list[int]) -> Value:
    """A vector of these lanes of two, those of the second behind those of the first."""
    return b.shuffle_vector(first, second, ir.Constant(ir.VectorType(_INT, len(lanes)), lanes))


def _load_parts(b: ir.IRBuilder, address: Value, stride: Value, element: VectorType) -> list[Value]:
    return [load(b, at(b, address, times(b, stride, k)), element.vector) for k in range(PARTS)]


@define(types.none, *[types.int64] * 3)
def interleave(b: ir.IRBuilder, to: Value, words: Value, stride: Value) -> None:
    """Store 16 words of each of PARTS parts, `stride` bytes apart, in turn: [16][PARTS]."""
    first, second, third, fourth = _load_parts(b, words, stride, I32)
    for i in range(TILE_ROWS // PARTS):
        # Words 4i … 4i + 3 of two parts each, in turn; then pairs of these in turn.
        pairs = [lane + 16 * part for lane in range(4 * i, 4 * i + 4) for part in range(2)]
        low, high = _pick(b, first, second, pairs), _pick(b, third, fourth, pairs)
        turns = [2 * word + part % 2 + 8 * (part // 2) for word in range(4) for part in range(PARTS)]
        b.store(_pick(b, low, high, turns), pointer(b, at(b, to, 64 * i), I32.vector), align=64)


@define(types.none, *[types.int64] * 3)
def add_parts(b: ir.IRBuilder, y: Value, sums: Value, stride: Value) -> None:
    """Store the sums of 16 rows, given those of their parts, four rows in each of four vectors `stride` bytes apart."""
    first, second, third, fourth = _load_parts(b, sums, stride, F32)
    total: Value = None
    for part in range(PARTS):
        rows = [PARTS * row + part for row in range(8)]  # of two vectors
        of_part = _pick(b, _pick(b, first, second, rows), _pick(b, third, fourth, rows), list(range(TILE_ROWS)))
        total = b.fadd(total, of_part) if part else of_part
    b.store(total, pointer(b, y, F32.vector), align=64)
