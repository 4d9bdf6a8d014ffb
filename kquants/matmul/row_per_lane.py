"""A few rows of x times a tile of W with a row of W, or a part of one, in each lane: the usual way of decode."""

from llvmlite import ir

from kquants.formats.packed_bytes import Value
from kquants.formats.tiles import Tile
from kquants.formats.unpacking import NOTHING, Format, HalfBlock, SuperBlockScales, Values, shifted_back
from kquants.matmul.prefetch import Prefetcher
from kquants.matmul.scaling import scaling_of
from kquants.matmul.split_k import XParts
from kquants.simd import I8_64
from kquants.simd.dot4 import TAKES_BYTES
from kquants.simd.dot_accumulator import DotAccumulator

_INT = ir.IntType(32)


def multiply_row_per_lane(
    b: ir.IRBuilder,
    fmt: Format,
    tile: Tile,
    sums: list[Value],
    x: list[XParts],
    x_scales: list[XParts],
    prefetcher: Prefetcher,
) -> tuple[list[Values], Values]:
    """Add the products of a super-block to the sums of each row of x; return its scales, and the super-block's own."""
    scaling, dots, ups = scaling_of(fmt), dict[tuple[int, int], list[DotAccumulator]](), dict[tuple[int, int], int]()
    scales, whole = list[Values](), NOTHING
    for found in fmt.unpack(tile):
        if isinstance(found, HalfBlock):
            place = divmod(found.block * fmt.SUB_BLOCKS + found.half * (fmt.SUB_BLOCKS - 1), scaling.SUB_BLOCKS)
            u, up = (found.in_place, found.up) if found.in_place and TAKES_BYTES else (found.u, 0)
            if place not in dots:
                dots[place], ups[place] = [scaling.start(b, row, *place, up) for row in x_scales], up
            first = 32 * found.block + 16 * found.half
            for k, vector in enumerate(u.vectors):
                add_products(dots[place], vector, four_bytes(b, x, first + 4 * k))
                prefetcher.step()
        elif isinstance(found, SuperBlockScales):
            whole = found.values
        else:
            scales.append(found.values)
            places = [(found.unit, i) for i in range(scaling.SUB_BLOCKS)]
            totals = [[shifted_back(b, dot.total(), ups[place]) for dot in dots[place]] for place in places]
            for t, of_row in enumerate(zip(*totals, strict=True)):
                sums[t] = scaling.add(b, sums[t], list(of_row), scales[-1], x_scales[t], found.unit)
    return scales, whole


def four_bytes(b: ir.IRBuilder, rows: list[XParts], offset: int) -> list[Value]:
    """Of each row of x four bytes for each lane."""
    return [b.bitcast(row.at(offset).load(_INT), I8_64.vector) for row in rows]


def add_products(dots: list[DotAccumulator], u: Value, fours: list[Value]) -> None:
    """Add to each sum the products of weights with four bytes of a row of x."""
    for dot, four in zip(dots, fours, strict=True):
        dot.add(u, four)
