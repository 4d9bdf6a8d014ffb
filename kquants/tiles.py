"""A tile: 16 rows of W, loaded so that each is in a lane of its own."""

from dataclasses import dataclass, field, replace
from typing import Any

from llvmlite import ir

from kquants.quads import Floats, Quads, Value, Words
from kquants.simd import I8_64, I32, call, pointer

_BYTE, _INT, _LONG = (ir.IntType(n) for n in (8, 32, 64))
_V8, _V32 = I8_64.vector, I32.vector
_FIRST_LEVEL, _SECOND_LEVEL = 3, 2
"""Caches, as LLVM's prefetch numbers them."""


@dataclass(frozen=True)
class Tile:
    """A super-block of 16 rows that begin `stride` bytes apart, the first at `address`: `size` bytes of each.

    It is loaded in columns of 16 bytes of each row, on first use. Each asks for two things, so that neither the
    memory nor the second-level cache keeps the next one waiting:

    - from each address of `ahead` on, as much of what comes soon, into the second-level cache: many small requests
      between the work, because the CPU has room for few at a time; in order of their addresses, because that is what
      its own prefetcher goes along with; and after the loads, which else wait for them (one thread of a Sapphire
      Rapids, a Q4_K product: 12.5 GB/s with all requests of a super-block together, 14.7 before the loads, 16.7
      after them). A Zen 4 forgets requests that it has no room for, so that all is asked for twice;
    - a share of the super-block at `following`, which is read after this one, into the first-level cache (two threads
      of a Zen 4, whose memory gives 33 GB/s: Q4_K 28.2 GB/s without, 31.0 with it; Q6_K 24.8 and 29.9).
    """

    b: ir.IRBuilder
    address: Value
    stride: Value
    following: Value
    ahead: tuple[Value, ...]
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
            # No instruction: it keeps the compiler from moving all the requests to one place.
            self.b.fence("seq_cst", "singlethread")
            self._ask_ahead(len(self.columns))
            self._ask_following(len(self.columns))
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
        at = self._at(self.address, r, offset)
        return self.b.load(pointer(self.b, at, ir.VectorType(_INT, 4)), align=1)

    def _at(self, address: Value, r: int, offset: int) -> Value:
        start = self.b.add(address, self.b.mul(self.stride, _LONG(r)))
        return self.b.add(start, _LONG(offset))

    def _ask_ahead(self, column: int) -> None:
        for line in range(256 * column, min(256 * column + 256, 16 * self.size), 64):
            for address in self.ahead:
                self._prefetch(self.b.add(address, _LONG(line)), _SECOND_LEVEL)

    def _ask_following(self, column: int) -> None:
        lines = [(self.size - 1 - 64 * k, r) for k in reversed(range(self.size // 64)) for r in range(16)]
        columns = -(-self.size // 16)
        for offset, r in lines[len(lines) * column // columns : len(lines) * (column + 1) // columns]:
            self._prefetch(self._at(self.following, r, offset), _FIRST_LEVEL)

    def _prefetch(self, address: Value, level: int) -> None:
        at = pointer(self.b, address, _BYTE)
        call(self.b, "llvm.prefetch.p0", ir.VoidType(), at, _INT(0), _INT(level), _INT(1))

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
