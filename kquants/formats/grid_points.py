"""What the formats of grids store: indices of points, signs and scales, of each row of a tile."""

from collections.abc import Sequence
from dataclasses import dataclass

from kquants.formats.packed_bytes import Words
from kquants.simd import HAS_BYTE_PERMUTATIONS, I8_64, I32, bits_from, in_lanes, with_parity


@dataclass(frozen=True)
class BitOfEach:
    """One bit of each of four indices: that of index i is bit first + step · i of a row's word."""

    words: Words
    first: int
    step: int = 1


@dataclass(frozen=True)
class Points:
    """Four points of each row, with the signs of their weights.

    A byte of `low` has bits 7-0 of an index; `high` has bit 8, then bit 9, where there are such. The sign of weight i
    is bit first_sign + i of `signs`, set where it is negative. Every value of these bits is the index of a point, so
    that no file reaches beyond the table.
    """

    low: Words
    signs: Words
    first_sign: int = 0
    high: Sequence[BitOfEach] = ()


def signs_with_parity(words: Words) -> Words:
    """The signs of 32 weights: bits 7k … 7k + 6 of a word are those of seven, their parity that of an eighth."""
    if HAS_BYTE_PERMUTATIONS:
        v = words.b.bitcast(words.value, I8_64.vector)
        v = bits_from(words.b, v, in_lanes(0, 7, 14, 21))
        return seven_signs(Words(words.b, words.b.bitcast(v, I32.vector)), 0)
    in_halves = words & 0x3FFF | words << 2 & 0x3FFF0000
    return seven_signs(in_halves & 0x007F007F | in_halves << 1 & 0x7F007F00, 0)


def seven_signs(words: Words, first: int) -> Words:
    """Bits first … first + 6 of each byte, and their parity as bit 7; `first` is 0 or 1."""
    v = with_parity(words.b, words.bytes(), first)
    return Words(words.b, words.b.bitcast(v, words.value.type))


def odd_scales(two: Words) -> Words:
    """2s + 1 of two int16 each."""
    return two << 1 | 0x00010001


def scales_of_nibbles(words: Words, byte: int) -> Words:
    """2s + 1 of the low and of the high nibble of a byte, as two int16."""
    bits = words >> 8 * byte
    return odd_scales(bits & 15 | bits << 12 & 0xF0000)
