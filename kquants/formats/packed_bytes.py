"""Values that formats are described with: a float, a word or some bytes of each of 16 rows, a row in each lane.

Formats say how their blocks unpack as Python that runs while a kernel is compiled: it works on values of the
compiler, wrapped so that it reads like the format's own formula, and emits straight-line vector code.
"""

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from kquants.compiler import cpu
from kquants.formats.ue4m3 import HALVES, NAN
from kquants.simd import (
    F32,
    I8_64,
    I32,
    half_to_float,
    look_up_128,
    look_up_nibble,
    move_bits,
    shuffle,
    spread_bits,
    spread_pairs,
)

Value = Any
"""A value of the compiler."""

_INT16 = ir.IntType(16)
_INT16S = ir.VectorType(_INT16, 32)
_V8, _V32, _VF = I8_64.vector, I32.vector, F32.vector


def _all(v: Value, n: int) -> Value:
    return ir.Constant(v.type, [n] * v.type.count)


def _minus_reached(b: ir.IRBuilder, v: Value, limit: int) -> Value:
    """-1 where a byte reaches the limit, else 0."""
    return b.sext(b.icmp_signed(">", v, _all(v, limit - 1)), v.type)


@dataclass(frozen=True)
class Floats:
    """A float32 of each row."""

    b: ir.IRBuilder
    value: Value

    def __neg__(self) -> "Floats":
        return self * -1.0

    def __mul__(self, factor: float) -> "Floats":
        return Floats(self.b, self.b.fmul(self.value, ir.Constant(_VF, [factor] * 16)))


@dataclass(frozen=True)
class Words:
    """32 bits of each row, or eight words of one (`kquants.formats.weight_row`)."""

    b: ir.IRBuilder
    value: Value

    def __and__(self, bits: int) -> "Words":
        return Words(self.b, self.b.and_(self.value, _all(self.value, bits)))

    def __or__(self, other: "Words | int") -> "Words":
        value = _all(self.value, other) if isinstance(other, int) else other.value
        return Words(self.b, self.b.or_(self.value, value))

    def __rshift__(self, n: int) -> "Words":
        return Words(self.b, self.b.lshr(self.value, _all(self.value, n)))

    def __lshift__(self, n: int) -> "Words":
        return Words(self.b, self.b.shl(self.value, _all(self.value, n)))

    def bytes(self) -> Value:
        """Four bytes of each."""
        return self.b.bitcast(self.value, ir.VectorType(ir.IntType(8), 4 * self.value.type.count))

    def every_other_byte(self, first: int, others: "Words") -> "Words":
        """Bytes first and first + 2 of each word, then those of another."""
        lanes = [4 * row + first + byte for row in range(16) for byte in (0, 2, 64, 66)]
        mine, theirs = (self.b.bitcast(words.value, _V8) for words in (self, others))
        found = shuffle(self.b, mine, theirs, lanes)
        return Words(self.b, self.b.bitcast(found, _V32))

    def moved(self, bit: int, to: int) -> "Words":
        """Shifted so that a bit comes to lie at another place."""
        return self >> bit - to if bit >= to else self << to - bit

    def every_bit(self, bit: int) -> "Words":
        """32 times a bit of each."""
        top = self << 31 - bit
        return Words(self.b, self.b.ashr(top.value, ir.Constant(_V32, [31] * 16)))

    def int16(self, i: int) -> "Words":
        """Bytes i and i + 1, unsigned, as two int16."""
        return self._bytes(i, None, i + 1, None)

    def signed_int16(self, i: int) -> "Words":
        """Bytes i and i + 1, signed, as two int16."""
        eight = ir.Constant(_INT16S, [8] * 32)
        top = self._as_int16(self._bytes(None, i, None, i + 1))
        return Words(self.b, self.b.bitcast(self.b.ashr(top, eight), _V32))

    def less(self, n: int) -> "Words":
        """n taken off both int16."""
        value = self.b.sub(self._as_int16(self), ir.Constant(_INT16S, [n] * 32))
        return Words(self.b, self.b.bitcast(value, _V32))

    def _bytes(self, *chosen: int | None) -> "Words":
        """Four of the bytes, None for 0: of shifts and masks LLVM makes the one instruction only at times."""
        lanes = [64 if byte is None else 4 * row + byte for row in range(16) for byte in chosen]
        found = shuffle(self.b, self.b.bitcast(self.value, _V8), ir.Constant(_V8, None), lanes)
        return Words(self.b, self.b.bitcast(found, _V32))

    def _as_int16(self, words: "Words") -> Value:
        return self.b.bitcast(words.value, _INT16S)

    def half(self, i: int) -> Floats:
        """The float16 in half i."""
        bits = self.b.trunc((self >> 16 * i).value, ir.VectorType(_INT16, 16))
        return Floats(self.b, half_to_float(self.b, bits))

    def half_power(self) -> Floats:
        """2^(e - 128) of byte 0."""
        e = self & 255
        # The bits are (e - 1) << 23, but for the two smallest, which are denormal: (e + 1) << 21 is right for these,
        # and smaller for all others.
        normal = self.b.sub((e << 23).value, ir.Constant(_V32, [1 << 23] * 16))
        denormal = self.b.add((e << 21).value, ir.Constant(_V32, [1 << 21] * 16))
        bits = self.b.select(self.b.icmp_signed(">", normal, denormal), normal, denormal)
        return Floats(self.b, self.b.bitcast(bits, _VF))

    def halves_of_ue4m3(self) -> "list[Floats]":
        """Half of each of the four bytes as UE4M3 (`kquants.formats.ue4m3`), 0 for NAN; the highest bit is ignored."""
        codes = self.b.bitcast(self.value, _V8)
        is_number = self.b.icmp_unsigned("!=", codes, _all(codes, NAN))
        if not cpu.has("avx512vbmi"):
            numbers = Words(self.b, self.b.bitcast(self.b.select(is_number, codes, _all(codes, 0)), _V32))
            return [numbers._half_of_ue4m3(i) for i in range(4)]
        low, high = (self.b.select(is_number, look_up_128(self.b, table, codes), _all(codes, 0)) for table in HALVES)
        found = []
        for i in (0, 2):
            lanes = [4 * row + i + k + 64 * upper for row in range(16) for k in (0, 1) for upper in (0, 1)]
            pair = Words(self.b, self.b.bitcast(shuffle(self.b, low, high, lanes), _V32))
            found += [pair << 16, pair & 0xFFFF0000]
        return [Floats(self.b, self.b.bitcast(words.value, _VF)) for words in found]

    def _half_of_ue4m3(self, i: int) -> Floats:
        """Half of byte i; no byte is NAN."""
        up = 20 - 8 * i
        placed = (self << up if up > 0 else self >> -up) & 0x7F << 20
        bits = self.b.add(placed.value, ir.Constant(_V32, [(127 - 8) << 23] * 16))
        # With an exponent of 0 that is (1 + f) / 2^8, where f / 2^7 is meant: the smaller of itself and what follows.
        v = self.b.bitcast(bits, _VF)
        less = self.b.fsub(self.b.fadd(v, v), ir.Constant(_VF, [2.0**-7] * 16))
        return Floats(self.b, self.b.select(self.b.fcmp_ordered("<", less, v), less, v))

    def spread(self, half: int, to: int) -> "PackedBytes":
        """Bits 16 · half … 16 · half + 15, each in a byte of its own, as bit `to`."""
        v = self.b.bitcast(self.value, _V8)
        return PackedBytes(self.b, [spread_bits(self.b, v, 16 * half + first, to) for first in range(0, 16, 4)])

    def spread_pairs(self) -> "PackedBytes":
        """Each two bits in a byte of their own."""
        v = self.b.bitcast(self.value, _V8)
        return PackedBytes(self.b, [spread_pairs(self.b, v, byte) for byte in range(4)])


@dataclass(frozen=True)
class PackedBytes:
    """16 bytes of each row, as four vectors: vector k holds bytes 4k … 4k + 3 of row i in lane i.

    Or one vector: 16 bytes of two rows (`kquants.matmul.row_pairs`), or 32 of one (`kquants.matmul.row_by_row`).
    """

    b: ir.IRBuilder
    vectors: list[Value]

    def __and__(self, bits: int) -> "PackedBytes":
        return PackedBytes(self.b, [self.b.and_(v, _all(v, bits)) for v in self.vectors])

    def __or__(self, other: "PackedBytes") -> "PackedBytes":
        return PackedBytes(self.b, [self.b.or_(v, w) for v, w in zip(self.vectors, other.vectors, strict=True)])

    def __xor__(self, bits: int) -> "PackedBytes":
        return PackedBytes(self.b, [self.b.xor(v, _all(v, bits)) for v in self.vectors])

    def __sub__(self, n: int) -> "PackedBytes":
        return PackedBytes(self.b, [self.b.sub(v, _all(v, n)) for v in self.vectors])

    def __add__(self, other: "PackedBytes") -> "PackedBytes":
        return PackedBytes(self.b, [self.b.add(v, w) for v, w in zip(self.vectors, other.vectors, strict=True)])

    def reached(self, *limits: int) -> "PackedBytes":
        """How many of the limits each byte, signed, reaches."""
        minus = [PackedBytes(self.b, [_minus_reached(self.b, v, n) for v in self.vectors]) for n in limits]
        return PackedBytes(self.b, [self.b.neg(v) for v in sum(minus[1:], minus[0]).vectors])

    def bits(self, first: int, count: int, to: int = 0) -> "PackedBytes":
        """Bits first … first + count - 1 of each byte, moved to bit `to`."""
        return PackedBytes(self.b, [move_bits(self.b, v, first, count, to) for v in self.vectors])

    def lookup(self, table: tuple[int, ...], first: int) -> "PackedBytes":
        """What a table of 16 has for bits first … first + 3 of each byte; `first` is 0 or 4."""
        return PackedBytes(self.b, [look_up_nibble(self.b, table, v, first) for v in self.vectors])

    def word(self, k: int) -> Words:
        """Bytes 4k … 4k + 3."""
        return Words(self.b, self.b.bitcast(self.vectors[k], _V32))

    def widened(self) -> list[Value]:
        """The bytes, signed, as int16: vector k holds those of bytes 2k and 2k + 1."""
        return [self.word(k).signed_int16(i).value for k in range(len(self.vectors)) for i in (0, 2)]
