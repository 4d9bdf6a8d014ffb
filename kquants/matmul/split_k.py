"""Split-K: a long row of W as several parts, whose sums are added in their order: ((0 + 1) + 2) + 3 …

A row is split if its tile is large, and its columns are as many groups of 256 in each part; into more parts if the tile
is very large (`kquants.tuning.Tuning.split_k`). Decode then reads tiles of 16 parts, those of four rows, two or one,
which lie behind each other in the file, instead of 16 rows: what is prefetched into the first-level cache stays there
until it is read. As the tuning decides which rows are split, results differ between classes of CPUs by rounding.

Lane i then holds part i % parts of a row, and meets that part of x. So the words of 4 bytes of a row of x are
interleaved: one from each part, side by side (`XParts`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.decorators import inline
from kquants.formats.packed_bytes import Value
from kquants.layout import TILE_ROWS, X_GROUP
from kquants.simd import F32, I32, VectorType, at, define, load, pointer, shuffle, times


def part_count(split_k: tuple[int, ...], tile_bytes: tuple[int, int]) -> Any:
    """`parts_of(columns, row_bytes)`: into how many parts rows are split, 1 for none.

    `split_k` has the parts of large rows, then of very large ones, whose tiles are beyond `tile_bytes`.
    """
    parts_of = _one
    for parts, limit in zip(split_k, tile_bytes, strict=False):
        parts_of = _split_beyond(limit, parts, parts_of)
    return parts_of


def _split_beyond(limit: int, parts: int, otherwise: Any) -> Any:
    """`parts_of(columns, row_bytes)`: `parts` for tiles of more than `limit` bytes if the columns allow it."""

    @inline
    def parts_of(columns: int, row_bytes: int) -> int:
        if TILE_ROWS * row_bytes > limit and columns % (parts * X_GROUP) == 0:
            return parts
        return otherwise(columns, row_bytes)

    return parts_of


@inline
def _one(columns: int, row_bytes: int) -> int:
    return 1


@dataclass(frozen=True)
class XParts:
    """Where a row of x lies, whole or with the words of its parts interleaved; offsets are those in each part."""

    b: ir.IRBuilder
    address: Value
    parts: int = 1

    def at(self, *offsets: Value | int) -> "XParts":
        """Some bytes on."""
        return XParts(self.b, at(self.b, self.address, *(times(self.b, n, self.parts) for n in offsets)), self.parts)

    def load(self, word: ir.Type, of: Callable[[Value], Value] = lambda words: words) -> Value:
        """For each lane its word of x, or `of` of all words: lane i has part i % parts of a row of W."""
        words = of(load(self.b, self.address, ir.VectorType(word, self.parts)))
        return shuffle(self.b, words, words, [lane % self.parts for lane in range(TILE_ROWS)])


def _load_strided(b: ir.IRBuilder, address: Value, stride: Value, count: int, element: VectorType) -> list[Value]:
    return [load(b, at(b, address, times(b, stride, k)), element.vector) for k in range(count)]


def _in_turn(b: ir.IRBuilder, vectors: list[Value], first: int, count: int) -> Value:
    """`count` words of each vector from `first` on: one of each, then the next of each."""
    if len(vectors) == 1:
        return shuffle(b, vectors[0], vectors[0], range(first, first + count))
    half = len(vectors) // 2
    low, high = (_in_turn(b, some, first, count) for some in (vectors[:half], vectors[half:]))
    lanes = [half * word + lane + side for word in range(count) for side in (0, half * count) for lane in range(half)]
    return shuffle(b, low, high, lanes)


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
            found = [shuffle(b, v, v, range(part, TILE_ROWS, parts)) for v in vectors]
            while len(found) > 1:
                both = range(2 * found[0].type.count)
                found = [shuffle(b, x, y, both) for x, y in zip(found[::2], found[1::2], strict=True)]
            total = b.fadd(total, found[0]) if part else found[0]
        b.store(total, pointer(b, y, F32.vector), align=64)

    return store
