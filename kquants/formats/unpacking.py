"""What the formats unpack from a super-block of a tile.

`unpack(tile)` of a format yields the weights half block by half block and, after those of a unit, the scales of that
unit. Weights are unsigned bytes u with one offset for the format. They form sub-blocks of 32 or of 16, each with a
scale of its own; how sub-blocks are scaled is in `kquants.matmul.blocks` for formats with float scales, and in
`kquants.matmul.super_blocks` for those of eight blocks with small integers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from llvmlite import ir

from kquants.formats.packed_bytes import Floats, PackedBytes, Value, Words
from kquants.formats.tiles import Tile
from kquants.simd.dot4 import SIGNED_OFFSET

SIGNED = 128
"""The OFFSET of formats whose weights are signed bytes, whatever their `offset_of` is on this CPU."""

GROUP = 8
"""Blocks that are unpacked together: those of a super-block, or as many that have none."""

BLOCK_WEIGHTS = 8 * 64
"""Bytes of an unpacked block's weights: vector k holds bytes u of weights 4k … 4k + 3, row i of W in lane i."""


@dataclass(frozen=True)
class HalfBlock:
    """u of one half of a block: 16 weights of each row.

    `in_place` is the same where it lies in the bytes of W, `up` bits too high: that saves a shift where products take
    all eight bits.
    """

    block: int
    half: int
    u: PackedBytes
    in_place: PackedBytes | None = None
    up: int = 0


def half_of_bits(block: int, half: int, packed: PackedBytes, first: int, count: int) -> HalfBlock:
    """The half block whose u are bits first … first + count - 1 of each byte."""
    in_place = packed & ((1 << count) - 1 << first)
    return HalfBlock(block, half, packed.bits(first, count), in_place, first)


Values = tuple[Value, Value | None]
"""Values of the compiler: scales and minima, or the float scales of both sub-blocks; see `has_two_values`."""

NOTHING: Values = (None, None)
"""The super-block's own scales where there are none."""


@dataclass(frozen=True)
class UnitScales:
    """Scales of a unit, and minima where there are some.

    With float scales a unit is a block, with float32 d and m, or the d of its two sub-blocks. With integer scales it is
    a pair of sub-blocks, whose scales and minima are int16: those of sub-block 2 · unit in the low half of each lane,
    those of the next in the high one.
    """

    unit: int
    scales: Floats | Words
    minima: Floats | Words | None = None
    second: Floats | None = None
    """The d of the second sub-block of a block with float scales; such formats have no minima."""

    @property
    def values(self) -> Values:
        """The scales, and the minima or the second scale."""
        other = self.minima or self.second
        return self.scales.value, other and other.value


@dataclass(frozen=True)
class SuperBlockScales:
    """The factor d of all scales of a super-block, and -1 times that of its minima; the last item."""

    d: Floats
    minus_dmin: Floats | None = None

    @property
    def values(self) -> Values:
        """Both."""
        return self.d.value, self.minus_dmin and self.minus_dmin.value


Unpacked = HalfBlock | UnitScales | SuperBlockScales


class Format(Protocol):
    """The names that a module of `kquants.formats` defines for its format."""

    BLOCK_BYTES: int
    BLOCKS: int
    """Blocks of 32 that are stored together: 8 in a super-block; 1, 2 or 4 in formats without."""
    SUB_BLOCKS: int
    """Sub-blocks in a block of 32: 1 or 2."""
    BITS: int
    """u is below 2**BITS; of signed weights, their magnitudes are."""
    OFFSET: int
    """u minus the weight; 0 where sub-blocks have a minimum, SIGNED where weights are signed bytes."""

    @property
    def unpack(self) -> Callable[[Tile], Iterator[Unpacked]]:
        """What a super-block of a tile holds, item by item."""


class GroupedBlocks:
    """GROUP blocks of a format without super-blocks as one: they are loaded together, wherever each begins."""

    def __init__(self, one: Format) -> None:
        self.BLOCK_BYTES, self.BLOCKS = GROUP // one.BLOCKS * one.BLOCK_BYTES, GROUP
        self.SUB_BLOCKS, self.BITS, self.OFFSET = one.SUB_BLOCKS, one.BITS, one.OFFSET
        self.one = one

    def unpack(self, tile: Tile) -> Iterator[Unpacked]:
        """The items of each block."""
        one = self.one
        for i in range(GROUP // one.BLOCKS):
            for item in one.unpack(tile.part(i * one.BLOCK_BYTES)):
                if isinstance(item, HalfBlock):
                    yield replace(item, block=i * one.BLOCKS + item.block)
                elif isinstance(item, UnitScales):
                    yield replace(item, unit=i * one.BLOCKS + item.unit)


def has_integer_scales(fmt: Format) -> bool:
    """Whether sub-blocks are scaled by integers, and the super-block as a whole by floats."""
    return fmt.BLOCKS == GROUP and not isinstance(fmt, GroupedBlocks)


def has_two_values(fmt: Format) -> bool:
    """Whether a unit has two values: scales and minima, or two float scales."""
    return not fmt.OFFSET or (fmt.SUB_BLOCKS == 2 and not has_integer_scales(fmt))


def is_signed(fmt: Format) -> bool:
    """Whether weights are signed bytes, to which `unpack` adds what `kquants.simd.dot4` wants."""
    return fmt.OFFSET == SIGNED


def offset_of(fmt: Format) -> int:
    """u minus the weight."""
    return SIGNED_OFFSET if is_signed(fmt) else fmt.OFFSET


def shifted_back(b: ir.IRBuilder, sums: Value, up: int) -> Value:
    """The sums of products whose weights were `up` bits too high, shifted back."""
    # Exact, so that LLVM makes one shift of this and one up that follows.
    return b.ashr(sums, ir.Constant(sums.type, [up] * sums.type.count), flags=("exact",)) if up else sums
