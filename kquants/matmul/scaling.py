"""How the dot products of sub-blocks become sums: by float scales, or by integer scales."""

from collections.abc import Callable, Iterable
from typing import Protocol

from llvmlite import ir

from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import Format, Values, has_integer_scales
from kquants.matmul.blocks import FloatScales
from kquants.matmul.split_k import XParts
from kquants.matmul.super_blocks import IntegerScales
from kquants.simd import VectorType
from kquants.simd.dot_accumulator import DotAccumulator


class Scaling(Protocol):
    """How the products of sub-blocks become a sum, unit by unit; `x` is what belongs to a (super-)block of x."""

    SUMS: VectorType
    """What a row of x adds up in while it passes a super-block."""
    SUB_BLOCKS: int
    """Sub-blocks in a unit."""
    X_GROUP_BYTES: int
    """Bytes of a group of x, from one row to the next."""
    X_BLOCK_BYTES: int
    """Bytes of what belongs to one block of x; 0 where that belongs to the whole group."""

    def begin(self, b: ir.IRBuilder, y: Value) -> Value:
        """The sums before the first unit, for a y."""

    def start(self, b: ir.IRBuilder, x: XParts, unit: Value | int, sub_block: int, up: int = 0) -> DotAccumulator:
        """The accumulators of a sub-block of a unit, before the products of its weights, which are `up` bits too
        high."""

    def add(
        self, b: ir.IRBuilder, sums: Value, dots: list[Value], scales: Values, x: XParts, unit: Value | int
    ) -> Value:
        """The sums with the dot products of a unit's sub-blocks."""

    def end(
        self,
        b: ir.IRBuilder,
        sums: Iterable[Value],
        y: Iterable[Value],
        units: Iterable[Values],
        whole: Callable[[], Values],
        x: list[XParts],
    ) -> Iterable[Value]:
        """y of each row of x after the last unit, given the scales of all units and the super-block's own.

        Code is emitted as this is consumed: scales are loaded when they are taken, and each y that sums are added to
        after the one before it was stored. `units` are taken once, or not at all.
        """


def scaling_of(fmt: Format) -> Scaling:
    """The scaling of a format."""
    return IntegerScales(fmt) if has_integer_scales(fmt) else FloatScales(fmt)


def units_of(fmt: Format) -> int:
    """Units in a super-block of a format."""
    return fmt.BLOCKS * fmt.SUB_BLOCKS // scaling_of(fmt).SUB_BLOCKS
