"""Weights of IQ1_S and IQ1_M: points of eight ternary g, of which each weight is an eighth more or less: (8g ± 1) / 8.

An index has 11 bits, and every number of so many bits is that of a point: no file reaches beyond the table. The table
has a word for each point, a nibble for each weight: its g + 1. Where an eighth is taken off, bit 2 of each nibble is
set, and a second look-up gives the weight. (Measured on Zen 4: MEASURED.)
"""

from collections.abc import Iterator

from llvmlite import ir

from kquants.formats.grids.iq1 import IQ1
from kquants.formats.packed_bytes import PackedBytes, Value, Words
from kquants.simd import I8_64, look_up_words, words_in_memory

BITS, OFFSET = 5, 16
"""Of u = 8g ± 1 + OFFSET."""

_LESS = 4
"""The bit of a nibble that takes an eighth off."""

_CODES = tuple(8 * (code % _LESS - 1) + (-1 if code & _LESS else 1) + OFFSET for code in range(2 * _LESS)) * 2


def halves_of_points(indices: list[Words], is_less: list[Words]) -> Iterator[PackedBytes]:
    """u of both halves of a block: of two points each, given the indices of four.

    All bits of `is_less` are set where an eighth is taken off all weights of the point, else none.
    """
    for first in (0, 2):
        points = (_eight_weights(indices[i], is_less[i]) for i in (first, first + 1))
        yield PackedBytes(indices[0].b, [v for point in points for v in point])


def _eight_weights(index: Words, is_less: Words) -> list[Value]:
    b = index.b
    word = Words(b, look_up_words(b, _table(b), index.value)) | is_less & 0x11111111 * _LESS
    nibbles = PackedBytes(b, [b.bitcast(word.value, I8_64.vector)])
    return [v for first in (0, 4) for v in nibbles.lookup(_CODES, first).vectors]


def _table(b: ir.IRBuilder) -> Value:
    """Weights 0 … 3 are the low nibbles of the bytes of a word, weights 4 … 7 the high ones."""
    places = [8 * (k % 4) + k // 4 * 4 for k in range(8)]
    words = [sum(code << place for code, place in zip(point, places, strict=True)) for point in IQ1.codes]
    return words_in_memory(b, "ternary_points", words)
