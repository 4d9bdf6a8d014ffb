"""How a super-block of a tile is stored for many rows of x, and how these are multiplied by it.

    weights    [blocks][8][64]     bytes u, as `BLOCK_WEIGHTS` tells
    scales     [units][2][64]      of each row of W: scales and minima of a unit, a block or a pair of sub-blocks;
                                   of a block of two sub-blocks with float scales, both of these
    own        [2][64]             float32: d, then -dmin, where a super-block has them

So `ByteLayout` has it; other layouts store more for each unit, or int16 for bytes: `kquants.matmul.int16_layouts`,
`kquants.matmul.scaled_layout` and `kquants.matmul.winograd_layout`. `kquants.matmul.strategy` chooses one.
"""

from typing import NamedTuple

from llvmlite import ir

from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import (
    BLOCK_WEIGHTS,
    GROUP,
    Format,
    HalfBlock,
    SuperBlockScales,
    UnitScales,
    Values,
    has_two_values,
    offset_of,
)
from kquants.layout import X_GROUP
from kquants.matmul.row_per_lane import add_products, four_bytes
from kquants.matmul.scaling import scaling_of, units_of
from kquants.matmul.split_k import XParts
from kquants.simd import I8_64, VectorType, at, load, store_vectors, times
from kquants.simd.dot_accumulator import DotAccumulator
from kquants.tuning import Tuning


class UnitOperands(NamedTuple):
    """A unit of some unpacked tiles, each `tile_bytes` behind the one before it, and the rows of x for it."""

    tiles: int
    tile_bytes: int
    weights: Value
    scales: Value
    unit: Value
    x: list[XParts]
    x_scales: list[XParts]

    @property
    def rows(self) -> int:
        """Rows of x."""
        return len(self.x)


class Unpacker:
    """Stores what a format unpacks, in the order in which it comes."""

    def __init__(self, b: ir.IRBuilder, layout: "ByteLayout", weights: Value, scales: Value) -> None:
        self.b, self.layout, self._weights, self._scales = b, layout, weights, scales

    def store_weights(self, half: HalfBlock) -> None:
        """Half a block."""
        first = BLOCK_WEIGHTS * half.block + BLOCK_WEIGHTS // 2 * half.half
        store_vectors(self.b, at(self.b, self._weights, self.layout.WEIGHT_BYTES * first), self.vectors(half))

    def vectors(self, half: HalfBlock) -> list[Value]:
        """Its weights as they are stored."""
        return half.u.vectors

    def store_scales(self, scales: UnitScales | SuperBlockScales) -> None:
        """Scales of a unit whose weights are stored, or of the super-block."""
        unit = scales.unit if isinstance(scales, UnitScales) else units_of(self.layout.fmt)
        place = at(self.b, self._scales, self.layout.unit_bytes * unit)
        store_vectors(self.b, place, [v for v in scales.values if v])
        if isinstance(scales, UnitScales):
            self.store_more(scales, place, self._weights)

    def store_more(self, scales: UnitScales, place: Value, weights: Value) -> None:
        """What a layout has for a unit besides its scales."""


class ByteLayout:
    """Weights as bytes; the sums of each sub-block are scaled when they are complete."""

    WEIGHT_BYTES = 1
    """Bytes of an unpacked weight, and of the value of x that it is multiplied by."""
    PLANES = 1
    """How often there is room for all weights: twice where high bytes follow the low ones."""
    WIDENS_X = False
    """Whether x is stored as int16 first."""
    unpacker: type[Unpacker] = Unpacker
    unit_bytes = 2 * 64
    """Bytes of all that belongs to a unit."""

    def __init__(self, fmt: Format, tuning: Tuning) -> None:
        self.fmt, self.tuning, self.scaling = fmt, tuning, scaling_of(fmt)

    @property
    def scales_at(self) -> int:
        """Bytes from the weights of GROUP blocks to their scales."""
        return GROUP * BLOCK_WEIGHTS * self.WEIGHT_BYTES * self.PLANES

    @property
    def tile_bytes(self) -> int:
        """Bytes of GROUP blocks of a tile: at most GROUP units, and what the super-block has of its own."""
        return self.scales_at + (GROUP + 1) * self.unit_bytes

    @property
    def x_bytes(self) -> int:
        """Bytes from a row of x to the next."""
        return 2 * X_GROUP if self.WIDENS_X else self.scaling.X_GROUP_BYTES

    def load_scales(self, b: ir.IRBuilder, scales: Value, unit: Value | int, element: VectorType) -> Values:
        """The values that were stored for a unit."""
        first = at(b, scales, times(b, unit, self.unit_bytes))
        second = load(b, at(b, first, 64), element.vector) if has_two_values(self.fmt) else None
        return load(b, first, element.vector), second

    def start(self, b: ir.IRBuilder, x_scales: XParts, unit: Value, i: int) -> DotAccumulator:
        """The sums of a sub-block with a row of x, before any product."""
        return self.scaling.start(b, x_scales, unit, i)

    def add(self, b: ir.IRBuilder, sums: Value, of: UnitOperands) -> Value:
        """The sums of all tiles and rows of x with the products of a unit."""
        totals = list[list[list[Value]]]()  # [sub-block][tile][row of x]
        together = self.scaling.SUB_BLOCKS if self.tuning.prefill_all_sub_blocks else 1
        for first in range(0, self.scaling.SUB_BLOCKS, together):
            totals += self._totals(b, of, range(first, first + together))
        for tile in range(of.tiles):
            scales = self.load_scales(b, at(b, of.scales, of.tile_bytes * tile), of.unit, self.scaling.SUMS)
            for t in range(of.rows):
                place, of_row = of.rows * tile + t, [of_tile[tile][t] for of_tile in totals]
                before = b.extract_value(sums, place)
                added = self.scaling.add(b, before, of_row, scales, of.x_scales[t], of.unit)
                sums = b.insert_value(sums, added, place)
        return sums

    def _totals(self, b: ir.IRBuilder, of: UnitOperands, sub_blocks: range) -> list[list[list[Value]]]:
        nbytes, x_bytes = (self.WEIGHT_BYTES * n // self.fmt.SUB_BLOCKS for n in (BLOCK_WEIGHTS, 32))
        dots = [[[self.start(b, row, of.unit, i) for row in of.x_scales] for _ in range(of.tiles)] for i in sub_blocks]
        for k in range(0, nbytes, 64):
            for i, of_sub_block in zip(sub_blocks, dots, strict=True):
                fours = four_bytes(b, of.x, x_bytes * i + k // 16)
                for tile, of_tile in enumerate(of_sub_block):
                    weights = at(b, of.weights, of.tile_bytes * tile + nbytes * i + k)
                    add_products(of_tile, load(b, weights, I8_64.vector), fours)
        return [[[dot.total() for dot in of_tile] for of_tile in of_sub_block] for of_sub_block in dots]


class _AmxUnpacker(Unpacker):
    def vectors(self, half: HalfBlock) -> list[Value]:
        """Without their offset: AMX multiplies signed bytes, too."""
        return (half.u - offset_of(self.layout.fmt)).vectors


class AmxByteLayout(ByteLayout):
    """Weights as bytes without their offset, for `kquants.matmul.amx_blocks`."""

    unpacker = _AmxUnpacker
