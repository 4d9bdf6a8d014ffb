"""The nearest points of a grid: for each group of 4 or 8 weights of a block, the point whose weighted error is least.

All points are compared. That is cheap, because a point is two halves, and its error is the sum of theirs: the errors of
the 64 or 81 halves are computed once for all points. Of the points that begin with the same half, only the one with the
best second half can be nearest; finding it takes one minimum of integers for each point, where the number of the half
lies in the lowest bits of its error. (Errors are not negative, so their bits as integers are in the same order.)
"""

from functools import reduce
from itertools import product
from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.decorators import Vector, inline
from kquants.formats.grids.grid import Grid
from kquants.simd import F32, I32, all_f32, at, call, define, load, pointer

Value = Any


def nearest_points(grid: Grid, n: int) -> Any:
    """`nearest(x, w, a, q)`: for blocks of n weights, the magnitudes q, of points of the grid, with least Σ w (x - a
    q)².

    A block is a lane; x, w and q are the addresses of n vectors.
    """
    size = 64 * grid.weights

    @define(types.none, types.int64, types.int64, F32, types.int64)
    def nearest_point(b: ir.IRBuilder, x: Value, w: Value, a: Value, q: Value) -> None:
        products = [b.fmul(a, all_f32(level)) for level in grid.levels]
        errors = [_errors(b, at(b, x, 64 * i), at(b, w, 64 * i), products) for i in range(grid.weights)]
        middle = grid.weights // 2
        halves = _best_halves(b, grid, _sums(b, errors[:middle]), _sums(b, errors[middle:]))
        for i in range(grid.weights):
            number = _digit(b, halves[i // middle], i % middle, _bits(grid))
            b.store(_magnitude(b, grid, number), pointer(b, at(b, q, 64 * i), F32.vector), align=1)

    @inline
    def nearest(x: int, w: int, a: Vector, q: int) -> None:
        for i in range(0, 64 * n, size):
            nearest_point(x + i, w + i, a, q + i)

    return nearest


def _bits(grid: Grid) -> int:
    """Bits of the number of a level."""
    return (len(grid.levels) - 1).bit_length()


def _every(n: int) -> Value:
    return ir.Constant(I32.vector, [n] * 16)


def _errors(b: ir.IRBuilder, x: Value, w: Value, products: list[Value]) -> list[Value]:
    """w (x - product)² for each product of the scale and a level."""
    x, w = (load(b, address, F32.vector) for address in (x, w))
    differences = [b.fsub(x, product) for product in products]
    return [b.fmul(w, b.fmul(difference, difference)) for difference in differences]


def _sums(b: ir.IRBuilder, errors: list[list[Value]]) -> dict[tuple[int, ...], Value]:
    """The error of each half, by the numbers of its levels."""
    if len(errors) == 1:
        return {(number,): error for number, error in enumerate(errors[0])}
    middle = len(errors) // 2
    first, second = _sums(b, errors[:middle]), _sums(b, errors[middle:])
    return {one + other: b.fadd(first[one], second[other]) for one, other in product(first, second)}


def _best_halves(b: ir.IRBuilder, grid: Grid, first: Any, second: Any) -> tuple[Value, Value]:
    """Both halves of the nearest point: in each, the numbers of its levels, the first lowest."""
    bits, middle = _bits(grid), grid.weights // 2
    mask = (1 << bits * middle) - 1

    def packed(half: tuple[int, ...]) -> int:
        return sum(number << bits * i for i, number in enumerate(half))

    def smaller(x: Value, y: Value) -> Value:
        return call(b, "llvm.smin.v16i32", I32.vector, x, y)

    marked = {
        half: b.or_(b.and_(b.bitcast(error, I32.vector), _every(~mask)), _every(packed(half)))
        for half, error in second.items()
    }
    best = best_first = best_second = None
    for half in sorted({code[:middle] for code in grid.codes}):
        least = reduce(smaller, [marked[code[middle:]] for code in grid.codes if code[:middle] == half])
        error = b.fadd(first[half], b.bitcast(least, F32.vector))
        if best is None:
            best, best_first, best_second = error, _every(packed(half)), least
            continue
        is_less = b.fcmp_ordered("<", error, best)
        best = b.select(is_less, error, best)
        best_first = b.select(is_less, _every(packed(half)), best_first)
        best_second = b.select(is_less, least, best_second)
    return best_first, b.and_(best_second, _every(mask))


def _digit(b: ir.IRBuilder, half: Value, i: int, bits: int) -> Value:
    """The number of the level of weight i of a half."""
    return b.and_(b.lshr(half, _every(bits * i)), _every((1 << bits) - 1))


def _magnitude(b: ir.IRBuilder, grid: Grid, number: Value) -> Value:
    """The level of a number, as float32: levels are at equal distances, but for the last one."""
    lowest, step, last = grid.levels[0], grid.levels[1] - grid.levels[0], len(grid.levels) - 1
    assert list(grid.levels[:-1]) == [lowest + step * i for i in range(last)]
    even = b.add(b.mul(number, _every(step)), _every(lowest))
    is_last = b.icmp_signed("==", number, _every(last))
    return b.sitofp(b.select(is_last, _every(grid.levels[-1]), even), F32.vector)
