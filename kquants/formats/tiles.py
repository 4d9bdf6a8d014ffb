"""A tile: 16 rows of W, loaded so that each is in a lane of its own."""

from dataclasses import dataclass, field, replace

from llvmlite import ir

from kquants.compiler.cpu import has
from kquants.formats.packed_bytes import Floats, PackedBytes, Value, Words
from kquants.layout import TILE_ROWS
from kquants.simd import I8_64, I32, at, call, computed_here, half_to_float, load, opaque, shuffle, times
from kquants.tuning import tuning

_INT16, _INT = ir.IntType(16), ir.IntType(32)
_V8, _V32 = I8_64.vector, I32.vector

_COLUMN = tuning().column_bytes


def tile_at(b: ir.IRBuilder, address: Value, stride: Value, size: int) -> "Tile":
    """The tile whose first row begins at an address, and each other `stride` bytes further on."""
    # Each is one of four addresses and up to three strides, which x86 adds up in the load. LLVM would compute sixteen,
    # for which there are no registers, and load them again for each column.
    steps = [0, stride, times(b, stride, 2), opaque(b, times(b, stride, 3))]
    fourths = [address, *(opaque(b, at(b, address, times(b, stride, r))) for r in (4, 8, 12))]
    return Tile(b, [at(b, fourth, step) for fourth in fourths for step in steps], size)


@dataclass(frozen=True)
class Tile:
    """A super-block of 16 rows: `size` bytes of each, from its address in `rows` on.

    It is loaded in columns of 16 or 32 bytes of each row, on first use.
    """

    b: ir.IRBuilder
    rows: list[Value]
    size: int
    start: int = 0
    columns: dict[int, list[Value]] = field(default_factory=dict)

    def row(self, i: Value) -> Value:
        """The address of row i."""
        first, second = self.rows[:2]
        return self.b.add(first, self.b.mul(i, self.b.sub(second, first)))

    def part(self, offset: int) -> "Tile":
        """The same from an offset on: a block of several."""
        return replace(self, start=self.start + offset)

    def packed(self, offset: int) -> PackedBytes:
        """16 bytes of each row."""
        words = [self._word(self.start + offset + 4 * k) for k in range(4)]
        return PackedBytes(self.b, [self.b.bitcast(v, _V8) for v in words])

    def four_bytes(self, offset: int) -> PackedBytes:
        """Four bytes of each row: a single vector."""
        return PackedBytes(self.b, [self.b.bitcast(self.word(offset).value, _V8)])

    def word(self, offset: int) -> Words:
        """Bytes offset … offset + 3 of each row, as far as the tile has them."""
        begin = self.start + offset
        first = min(begin, self.size - 4)
        return Words(self.b, self._word(first)) >> 8 * (begin - first)

    def int16s(self, n: int) -> Words:
        """n as two int16 of each row: scales that are the same everywhere."""
        return Words(self.b, ir.Constant(_V32, [n << 16 | n] * TILE_ROWS))

    def half(self, offset: int) -> Floats:
        """A float16 of each row."""
        return self.word(offset).half(0)

    def halves(self, offset: int) -> Floats:
        """The same, loaded row by row: less work if nothing else of their column is needed."""
        found, place = ir.Constant(ir.VectorType(_INT16, TILE_ROWS), ir.Undefined), self.start + offset
        for i, row in enumerate(self.rows):
            found = self.b.insert_element(found, load(self.b, at(self.b, row, place), _INT16), _INT(i))
        return Floats(self.b, half_to_float(self.b, found))

    def _word(self, first: int) -> Value:
        """Bytes first … first + 3 of each row."""
        column, width = self._place(first)
        k, byte = divmod(first - column, 4)
        low = self._column(column, width)[k]
        if byte == 0:
            return low
        high, bits = self._word(first - byte + 4), ir.Constant(_V32, [8 * byte] * 16)
        return call(self.b, "llvm.fshr.v16i32", _V32, high, low, bits)

    def _place(self, first: int) -> tuple[int, int]:
        """Where the column begins that has these bytes, or the first of them, and how wide it is.

        The last column ends with the row. It also has what would need two others.
        """
        width = _COLUMN if self.size >= _COLUMN else 16
        last = 16 if self.size % width <= 16 else width
        column = first - first % width
        if column + width > self.size or (first > column + width - 4 and first >= self.size - last):
            return self.size - last, last
        return column, width

    def _column(self, offset: int, width: int) -> list[Value]:
        """`width` bytes of each row from an offset on, as words."""
        if offset not in self.columns:
            kind = ir.VectorType(_INT, width // 4)
            loaded = [load(self.b, at(self.b, row, offset), kind) for row in self.rows]
            words = self._transposed(loaded) if width == 16 else self._transposed_pairs(loaded)
            # Where a vector is a register: LLVM would begin several columns at once, for which it has not enough.
            self.columns[offset] = [computed_here(self.b, v) for v in words] if has("avx512f") else words
        return self.columns[offset]

    def _transposed(self, rows: list[Value]) -> list[Value]:
        # Rows r, r + 4, r + 8 and r + 12 in the quarters of a vector, then a transpose of 4 × 4 words in each quarter.
        return self._quarters_transposed([self._joined(rows[r::4]) for r in range(4)])

    def _transposed_pairs(self, rows: list[Value]) -> list[Value]:
        # Rows r and r + 4 in the halves of a vector, and a transpose in each quarter: then the first four words of rows
        # are in the even quarters, the others in the odd ones.
        pairs = [shuffle(self.b, rows[r], rows[r + 4], range(16)) for r in (*range(4), *range(8, 12))]
        above, below = self._quarters_transposed(pairs[:4]), self._quarters_transposed(pairs[4:])
        chosen = [[4 * quarter + i for quarter in range(odd, 8, 2) for i in range(4)] for odd in (0, 1)]
        return [shuffle(self.b, x, y, lanes) for lanes in chosen for x, y in zip(above, below, strict=True)]

    def _quarters_transposed(self, vectors: list[Value]) -> list[Value]:
        a, b, c, d = vectors
        first, second = (
            (self._in_quarters(a, c, low) for low in (True, False)),
            (self._in_quarters(b, d, low) for low in (True, False)),
        )
        return [self._in_quarters(x, y, low) for x, y in zip(first, second, strict=True) for low in (True, False)]

    def _joined(self, quarters: list[Value]) -> Value:
        a, b, c, d = quarters
        return shuffle(self.b, shuffle(self.b, a, b, range(8)), shuffle(self.b, c, d, range(8)), range(16))

    def _in_quarters(self, x: Value, y: Value, low: bool) -> Value:
        """The low or high two words of each quarter of x and y, alternating."""
        first = 0 if low else 2
        lanes = [q + i + 16 * of_y for q in range(0, 16, 4) for i in (first, first + 1) for of_y in (0, 1)]
        return shuffle(self.b, x, y, lanes)
