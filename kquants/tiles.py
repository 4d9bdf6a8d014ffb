"""A tile: 16 rows of W, a row in each lane. What formats are described with.

Formats say how their blocks unpack as Python that runs while a kernel is compiled: it works on values of the
compiler, wrapped so that it reads like the format's own formula, and emits straight-line vector code.
"""

from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from kquants.cpu import lowering
from kquants.simd import F32, I8_64, I32, call, half_to_float, pointer

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
        """All bytes n bits down; what comes in above is for a mask to take away."""
        return self._shifted(self.b.lshr, n)

    def __lshift__(self, n: int) -> "Quads":
        """All bytes n bits up; what comes in below is for a mask to take away."""
        return self._shifted(self.b.shl, n)

    def _shifted(self, shift: Any, n: int) -> "Quads":
        # By 32-bit lanes, for want of a byte shift on x86.
        count = ir.Constant(_V32, [n] * 16)
        return Quads(self.b, [self.b.bitcast(shift(self.b.bitcast(v, _V32), count), _V8) for v in self.vectors])

    def high_nibbles(self) -> tuple["Quads", float]:
        """Bits 4 … 7 of each byte, times what comes second: left where they are if `dot4` is as fast so."""
        return (self & 0xF0, 16.0) if ANY_BYTE else (self >> 4 & 15, 1.0)

    def word(self, k: int) -> Words:
        """Bytes 4k … 4k + 3."""
        return Words(self.b, self.b.bitcast(self.vectors[k], _V32))


@dataclass
class Tile:
    """A super-block of 16 rows that begin `stride` bytes apart, the first at `address`.

    Every 256 bytes loaded ask for 256 bytes of the tile that comes next in memory, from `ahead` on: many small
    requests between the work, because the CPU has room for few at a time; in order of their addresses, because that
    is what its own prefetcher goes along with; and after the loads, which else wait for them (with one thread, and a
    Q4_K product: 12.5 GB/s with all requests of a super-block together, 14.7 before the loads, 16.7 after them).
    """

    b: ir.IRBuilder
    address: Value
    stride: Value
    ahead: Value
    asked: int = field(default=0, init=False)

    def quads(self, offset: int) -> Quads:
        """16 bytes of each row."""
        rows = [self._row(r, offset, ir.VectorType(_INT, 4)) for r in range(16)]
        self._ask(256)
        # Rows r, r + 4, r + 8 and r + 12 in the quarters of a vector, then a transpose of 4 × 4 words in each quarter.
        a, b, c, d = (self._joined(rows[r::4]) for r in range(4))
        first, second = (
            (self._in_quarters(a, c, low) for low in (True, False)),
            (self._in_quarters(b, d, low) for low in (True, False)),
        )
        words = [self._in_quarters(x, y, low) for x, y in zip(first, second, strict=True) for low in (True, False)]
        return Quads(self.b, [self.b.bitcast(v, _V8) for v in words])

    def half(self, offset: int) -> Floats:
        """A float16 of each row."""
        halves: Value = ir.Constant(ir.VectorType(ir.IntType(16), 16), ir.Undefined)
        for r in range(16):
            halves = self.b.insert_element(halves, self._row(r, offset, ir.IntType(16)), _INT(r))
        return Floats(self.b, half_to_float(self.b, halves))

    def _row(self, r: int, offset: int, element: ir.Type) -> Value:
        start = self.b.add(self.address, self.b.mul(self.stride, _LONG(r)))
        return self.b.load(pointer(self.b, self.b.add(start, _LONG(offset)), element), align=1)

    def _ask(self, n: int) -> None:
        # No instruction: it keeps the compiler from moving all the requests to one place.
        self.b.fence("seq_cst", "singlethread")
        for line in range(self.asked, self.asked + n, 64):
            at = pointer(self.b, self.b.add(self.ahead, _LONG(line)), _BYTE)
            call(self.b, "llvm.prefetch.p0", ir.VoidType(), at, _INT(0), _INT(2), _INT(1))
        self.asked += n

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
