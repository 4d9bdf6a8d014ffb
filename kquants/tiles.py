"""A tile: 16 rows of W, a row in each lane. What formats are described with.

Formats say how their blocks unpack as Python that runs while a kernel is compiled: it works on values of the
compiler, wrapped so that it reads like the format's own formula, and emits straight-line vector code.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from llvmlite import ir

from kquants.cpu import lowering
from kquants.simd import F32, I8_64, I32, call, half_to_float, look_up, pointer, spread_bits

Value = Any
"""A value of the compiler."""

_BYTE, _SHORT, _INT, _LONG = (ir.IntType(n) for n in (8, 16, 32, 64))
_V8, _V32, _VF = I8_64.vector, I32.vector, F32.vector


ANY_BYTE = "VNNI" in lowering()
"""Whether products of any unsigned byte are as fast as those of small ones."""


@dataclass(frozen=True)
class Floats:
    """A float32 of each row."""

    b: ir.IRBuilder
    value: Value

    def __mul__(self, other: "Floats | float") -> "Floats":
        if not isinstance(other, Floats):
            return self * Floats(self.b, ir.Constant(_VF, [other] * 16))
        return Floats(self.b, self.b.fmul(self.value, other.value))

    def __sub__(self, n: float) -> "Floats":
        return Floats(self.b, self.b.fsub(self.value, ir.Constant(_VF, [n] * 16)))


@dataclass(frozen=True)
class Words:
    """32 bits of each row."""

    b: ir.IRBuilder
    value: Value

    def __and__(self, bits: int) -> "Words":
        return Words(self.b, self.b.and_(self.value, ir.Constant(_V32, [bits] * 16)))

    def __or__(self, other: "Words") -> "Words":
        return Words(self.b, self.b.or_(self.value, other.value))

    def __rshift__(self, n: int) -> "Words":
        return Words(self.b, self.b.lshr(self.value, ir.Constant(_V32, [n] * 16)))

    def __lshift__(self, n: int) -> "Words":
        return Words(self.b, self.b.shl(self.value, ir.Constant(_V32, [n] * 16)))

    def byte(self, i: int) -> Floats:
        """Byte i, unsigned."""
        return Floats(self.b, self.b.sitofp((self >> 8 * i & 255).value, _VF))

    def signed_byte(self, i: int) -> Floats:
        """Byte i, signed."""
        top = self.b.shl(self.value, ir.Constant(_V32, [24 - 8 * i] * 16))
        return Floats(self.b, self.b.sitofp(self.b.ashr(top, ir.Constant(_V32, [24] * 16)), _VF))

    def half(self, i: int) -> Floats:
        """The float16 in half i."""
        bits = self.b.trunc((self >> 16 * i).value, ir.VectorType(_SHORT, 16))
        return Floats(self.b, half_to_float(self.b, bits))

    def half_power(self) -> Floats:
        """2^(e - 128) of byte 0."""
        e = self & 255
        # The exponent bits are e - 1, but the two smallest are denormal.
        is_normal = self.b.icmp_unsigned(">", e.value, ir.Constant(_V32, [1] * 16))
        denormal = self.b.shl(ir.Constant(_V32, [0x200000] * 16), e.value)
        normal = self.b.shl(self.b.sub(e.value, ir.Constant(_V32, [1] * 16)), ir.Constant(_V32, [23] * 16))
        return Floats(self.b, self.b.bitcast(self.b.select(is_normal, normal, denormal), _VF))

    def spread(self, half: int, to: int) -> "Quads":
        """Bits 16 · half … 16 · half + 15, each in a byte of its own, as bit `to`."""
        v = self.b.bitcast(self.value, _V8)
        return Quads(self.b, [spread_bits(self.b, v, 16 * half + first, to) for first in range(0, 16, 4)])


@dataclass(frozen=True)
class Quads:
    """16 bytes of each row, as four vectors: vector k holds bytes 4k … 4k + 3 of row i in lane i."""

    b: ir.IRBuilder
    vectors: list[Value]

    def __and__(self, bits: int) -> "Quads":
        return Quads(self.b, [self.b.and_(v, ir.Constant(_V8, [bits] * 64)) for v in self.vectors])

    def __or__(self, other: "Quads") -> "Quads":
        return Quads(self.b, [self.b.or_(v, w) for v, w in zip(self.vectors, other.vectors, strict=True)])

    def __xor__(self, bits: int) -> "Quads":
        return Quads(self.b, [self.b.xor(v, ir.Constant(_V8, [bits] * 64)) for v in self.vectors])

    def __sub__(self, n: int) -> "Quads":
        return Quads(self.b, [self.b.sub(v, ir.Constant(_V8, [n] * 64)) for v in self.vectors])

    def __rshift__(self, n: int) -> "Quads":
        """All bytes n bits down, or -n up; what comes in from the next byte is for a mask to take away."""
        # By 32-bit lanes, for want of a byte shift on x86.
        shift, count = self.b.lshr if n > 0 else self.b.shl, ir.Constant(_V32, [abs(n)] * 16)
        return Quads(self.b, [self.b.bitcast(shift(self.b.bitcast(v, _V32), count), _V8) for v in self.vectors])

    def __lshift__(self, n: int) -> "Quads":
        """All bytes n bits up, or -n down."""
        return self >> -n

    def bits(self, first: int, count: int, to: int = 0) -> "Quads":
        """Bits first … first + count - 1 of each byte, moved to bit `to`."""
        return self >> first - to & (1 << count) - 1 << to

    def lookup(self, table: tuple[int, ...]) -> "Quads":
        """What a table of 16 has for each byte, 0 … 15."""
        return Quads(self.b, [look_up(self.b, table, v) for v in self.vectors])

    def in_place(self, first: int, count: int) -> tuple["Quads", float]:
        """Such bits, times what comes second: left where they are if `dot4` is as fast so."""
        return (self & (1 << count) - 1 << first, 2.0**first) if ANY_BYTE else (self.bits(first, count), 1.0)

    def word(self, k: int) -> Words:
        """Bytes 4k … 4k + 3."""
        return Words(self.b, self.b.bitcast(self.vectors[k], _V32))


@dataclass(frozen=True)
class Tile:
    """A super-block of 16 rows that begin `stride` bytes apart, the first at `address`: `size` bytes of each.

    It is loaded in columns of 16 bytes of each row, on first use. Each asks for as much of a tile that comes soon,
    from `ahead` on: many small requests between the work, because the CPU has room for few at a time; in
    order of their addresses, because that is what its own prefetcher goes along with; and after the loads, which else
    wait for them (with one thread, and a Q4_K product: 12.5 GB/s with all requests of a super-block together, 14.7
    before the loads, 16.7 after them).
    """

    b: ir.IRBuilder
    address: Value
    stride: Value
    ahead: Value
    size: int
    start: int = 0
    columns: dict[int, list[Value]] = field(default_factory=dict)

    def part(self, offset: int) -> "Tile":
        """The same from an offset on: a block of several."""
        return replace(self, start=self.start + offset)

    def quads(self, offset: int) -> Quads:
        """16 bytes of each row."""
        words = [self._word(self.start + offset + 4 * k) for k in range(4)]
        return Quads(self.b, [self.b.bitcast(v, _V8) for v in words])

    def word(self, offset: int) -> Words:
        """Bytes offset … offset + 3 of each row, as far as the tile has them."""
        at = self.start + offset
        first = min(at, self.size - 4)
        return Words(self.b, self._word(first)) >> 8 * (at - first)

    def half(self, offset: int) -> Floats:
        """A float16 of each row."""
        return self.word(offset).half(0)

    def _word(self, at: int) -> Value:
        """Bytes at … at + 3 of each row."""
        column = at & ~15
        if column + 16 > self.size or (at > column + 12 and at >= self.size - 16):
            column = self.size - 16
        k, byte = divmod(at - column, 4)
        low = self._column(column)[k]
        if byte == 0:
            return low
        high, bits = self._word(at - byte + 4), ir.Constant(_V32, [8 * byte] * 16)
        return call(self.b, "llvm.fshr.v16i32", _V32, high, low, bits)

    def _column(self, offset: int) -> list[Value]:
        """Bytes offset … offset + 15 of each row, as four words."""
        if offset not in self.columns:
            rows = [self._row(r, offset) for r in range(16)]
            self._ask(256 * len(self.columns))
            self.columns[offset] = self._transposed(rows)
        return self.columns[offset]

    def _transposed(self, rows: list[Value]) -> list[Value]:
        # Rows r, r + 4, r + 8 and r + 12 in the quarters of a vector, then a transpose of 4 × 4 words in each quarter.
        a, b, c, d = (self._joined(rows[r::4]) for r in range(4))
        first, second = (
            (self._in_quarters(a, c, low) for low in (True, False)),
            (self._in_quarters(b, d, low) for low in (True, False)),
        )
        return [self._in_quarters(x, y, low) for x, y in zip(first, second, strict=True) for low in (True, False)]

    def _row(self, r: int, offset: int) -> Value:
        start = self.b.add(self.address, self.b.mul(self.stride, _LONG(r)))
        return self.b.load(pointer(self.b, self.b.add(start, _LONG(offset)), ir.VectorType(_INT, 4)), align=1)

    def _ask(self, first: int) -> None:
        # No instruction: it keeps the compiler from moving all the requests to one place.
        self.b.fence("seq_cst", "singlethread")
        for line in range(first, min(first + 256, 16 * self.size), 64):
            at = pointer(self.b, self.b.add(self.ahead, _LONG(line)), _BYTE)
            call(self.b, "llvm.prefetch.p0", ir.VoidType(), at, _INT(0), _INT(2), _INT(1))

    def _joined(self, quarters: list[Value]) -> Value:
        a, b, c, d = quarters
        return self._shuffle(self._shuffle(a, b, range(8)), self._shuffle(c, d, range(8)), range(16))

    def _in_quarters(self, x: Value, y: Value, low: bool) -> Value:
        """The low or high two words of each quarter of x and y, alternating."""
        first = 0 if low else 2
        lanes = [q + i + 16 * of_y for q in range(0, 16, 4) for i in (first, first + 1) for of_y in (0, 1)]
        return self._shuffle(x, y, lanes)

    def _shuffle(self, x: Value, y: Value, lanes: Any) -> Value:
        mask = [_INT(lane) for lane in lanes]
        return self.b.shuffle_vector(x, y, ir.Constant(ir.VectorType(_INT, len(mask)), mask))
