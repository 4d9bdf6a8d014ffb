"""Weights of IQ1_S and IQ1_M: points of eight ternary g, each an eighth more or less: (8g ± 1) / 8.

An index has 11 bits, and every number of so many bits is that of a point: no file reaches beyond the table. With
permutations of bytes (`kquants.simd.tables`) 64 points are looked up at once, four of each row: two bytes, each of four
codes g + 1, which go to bytes of their own. (Measured on Zen 4 with AVX-512, weights in the caches: decode 1.5 times as
fast as with words from memory, 1.2 times as with gathers.) Other CPUs load points from memory, as words of eight
nibbles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from kquants.formats.grids.iq1 import IQ1
from kquants.formats.packed_bytes import PackedBytes, Value, Words
from kquants.simd import (
    HAS_BYTE_PERMUTATIONS,
    I8_64,
    WordTable,
    bits_from,
    in_lanes,
    look_up_64,
    look_up_long,
)

BITS, OFFSET = 5, 16
"""Of u = 8g ± 1 + OFFSET."""

_MORE = tuple(8 * (code - 1) + 1 + OFFSET for code in range(3))
"""u of each code g + 1 where an eighth is added; it is 2 less where that is taken off."""

_V8 = I8_64.vector
_HALVES = ((0, 4), (4, 8))


@dataclass(frozen=True)
class TernaryPoints:
    """Four points of each row.

    A byte of `low` has bits 7-0 of an index; those of index i have bits 10-8 in `high`, from bit first + step · i on.
    All bits of `is_less[i]` are set where an eighth is taken off the weights of point i, else none.
    """

    low: Words
    high: Words
    first: int
    step: int
    is_less: Sequence[Words]


def ternary_weights(points: Sequence[TernaryPoints]) -> Iterator[PackedBytes]:
    """u of some blocks, half by half: two points each. Blocks that come together share what is loaded of the tables."""
    found = (_by_bytes if HAS_BYTE_PERMUTATIONS else _by_words)(points)
    return (PackedBytes(points[0].low.b, vectors) for vectors in found)


def _by_bytes(points: Sequence[TernaryPoints]) -> Iterator[list[Value]]:
    b = points[0].low.b
    low = [_bytes(of.low) for of in points]
    # Permutations heed the lower seven bits of the index.
    masks = [[b.icmp_signed("<", v, _all(0)), *_high_bits(of)] for v, of in zip(low, points, strict=True)]
    halves = [look_up_long(b, _codes(slice(*half)), low, masks) for half in _HALVES]
    for of, *two in zip(points, *halves, strict=True):
        for first in (0, 2):
            yield [_four_weights(of, half, i) for i in (first, first + 1) for half in two]


def _high_bits(of: TernaryPoints) -> list[Value]:
    """Masks: where bits 8, 9 and 10 of the indices are set."""
    b, starts = of.low.b, in_lanes(*(of.first + of.step * i for i in range(4)))
    v = bits_from(b, _bytes(of.high), starts)
    return [b.icmp_unsigned("!=", b.and_(v, _all(1 << bit)), _all(0)) for bit in range(3)]


def _codes(weights: slice) -> list[int]:
    """A byte of each point: two bits for each of four weights."""
    return [sum(code << 2 * k for k, code in enumerate(point[weights])) for point in IQ1.codes]


def _four_weights(of: TernaryPoints, half: Value, i: int) -> Value:
    b = of.low.b
    more = look_up_64(b, [*_MORE, 0], bits_from(b, half, in_lanes(*range(8 * i, 8 * i + 8, 2))))
    return b.add(more, b.and_(_bytes(of.is_less[i]), _all(-2)))


def _by_words(points: Sequence[TernaryPoints]) -> Iterator[list[Value]]:
    b = points[0].low.b
    table = WordTable(b, _nibbles())
    for of in points:
        for first in (0, 2):
            yield [v for i in (first, first + 1) for v in _eight_weights(of, table, i)]


def _eight_weights(of: TernaryPoints, table: WordTable, i: int) -> list[Value]:
    b, less = of.low.b, tuple(u - 2 for u in _MORE)
    index = of.low >> 8 * i & 255 | of.high.moved(of.first + of.step * i, 8) & 0x700
    (word,) = table.look_up(index.value)
    nibbles = PackedBytes(b, [b.or_(b.bitcast(word, _V8), b.and_(_bytes(of.is_less[i]), _all(0x44)))])
    return [v for first in (0, 4) for v in nibbles.lookup((*_MORE, 0, *less, 0) * 2, first).vectors]


def _nibbles() -> list[int]:
    """A word of each point: the low nibbles of its bytes are weights 0 … 3, the high ones weights 4 … 7."""
    places = [8 * (k % 4) + k // 4 * 4 for k in range(8)]
    return [sum(code << place for code, place in zip(point, places, strict=True)) for point in IQ1.codes]


def _bytes(words: Words) -> Value:
    return words.b.bitcast(words.value, _V8)


def _all(n: int) -> ir.Constant:
    return ir.Constant(_V8, [n] * 64)
