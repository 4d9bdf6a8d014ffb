"""A super-block of one row of W, whose blocks are unpacked with their 32 weights side by side in a vector of 256 bits.

`kquants.matmul.row_by_row` multiplies such rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from llvmlite import ir

from kquants.formats.packed_bytes import Floats, PackedBytes, Value, Words
from kquants.formats.tiles import Tile
from kquants.simd import at, load

_BYTE, _INT = ir.IntType(8), ir.IntType(32)


@dataclass(frozen=True)
class WeightRow:
    """A super-block of one row, of which bytes lie side by side in the lanes of a vector."""

    b: ir.IRBuilder
    address: Value

    def at(self, offset: int) -> Value:
        """The address of a byte."""
        return at(self.b, self.address, offset)

    def bytes(self, offset: int) -> PackedBytes:
        """32 bytes from an offset on."""
        return PackedBytes(self.b, [self.few_bytes(offset, 32)])

    def few_bytes(self, offset: int, count: int) -> Value:
        """A vector of `count` bytes from an offset on."""
        return load(self.b, self.at(offset), ir.VectorType(_BYTE, count))

    def int16s(self, offset: int) -> Value:
        """A vector of 16 int16 from an offset on."""
        return load(self.b, self.at(offset), ir.VectorType(ir.IntType(16), 16))

    def words(self, offset: int) -> Words:
        """Eight words of 32 bits from an offset on."""
        return Words(self.b, load(self.b, self.at(offset), ir.VectorType(_INT, 8)))


@dataclass(frozen=True)
class RowBlock:
    """32 weights of a row: u as 32 unsigned bytes.

    Of a format with signs u are magnitudes, and `signs` bytes that are negative where a weight is, else positive.
    """

    u: Value
    signs: Value | None = None


@dataclass(frozen=True)
class UnpackedRow:
    """A super-block of a row. Code is emitted as `blocks` is consumed."""

    scales: Value
    """16 int16: of the first halves of the eight blocks, then of their second halves."""
    blocks: Iterator[RowBlock]
    offset: int = 0
    """u minus the weight."""


class RowFormat(Protocol):
    """The names that the module of a format with super-blocks defines if its rows are unpacked one by one."""

    BLOCKS: int
    """Blocks of a super-block."""

    @property
    def unpack_row(self) -> Callable[[WeightRow], UnpackedRow]:
        """What a super-block of a row holds."""

    @property
    def row_factors(self) -> Callable[[Tile], Floats]:
        """The factor of all scales of each row of a tile."""
