"""What the formats of grids store, from 256 bytes q with signs: indices of points, and bits of signs."""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.decorators import inline
from kquants.formats.grids.grid import Grid
from kquants.simd import at, define, load, load_i8, words_in_memory


def indices_of(grid: Grid) -> Any:
    """`index_of(q) -> int`: the index of the point whose magnitudes are those of the bytes at q, whatever the signs."""
    base, shift = len(grid.levels), (grid.levels[1] - grid.levels[0]).bit_length() - 1
    assert [level >> shift for level in grid.levels] == list(range(base))
    indices = {number: index for index, number in enumerate(grid.numbers)}
    words = [indices.get(number, 0) for number in range(base**grid.weights)]
    weights = grid.weights

    @define(types.int32, types.int64)
    def look_up(b: ir.IRBuilder, number: Any) -> Any:
        table = words_in_memory(b, words)
        return load(b, at(b, table, b.shl(number, ir.IntType(64)(2))), ir.IntType(32))

    @inline
    def index_of(q: int) -> int:
        number = 0
        for i in range(weights):
            number = base * number + (abs(load_i8(q + weights - 1 - i)) >> shift)
        return look_up(number)

    return index_of


@inline
def eight_signs(q: int) -> int:
    """A bit for each of eight bytes, set where it is negative."""
    bits = 0
    for i in range(8):
        bits |= (load_i8(q + i) < 0) << i
    return bits
