"""Sums of squares of the columns of what matrices are multiplied by: how much an error of a weight matters."""

from kquants.compiler.decorators import kernel
from kquants.records import SquareSumsOp
from kquants.simd import add_square, load_f32x16_part, load_f64x16, load_i64, store_f64x16, store_i64
from kquants.threadpool.interpreter import arguments_of, group_of, row_count

_sums_of = arguments_of(SquareSumsOp)


@kernel("square_sums")
def square_sums(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: SquareSumsOp; 16 columns of a group a unit. Squares are exact, and each sum is rounded to float64."""
    given, rows = _sums_of(op), row_count(op, batch)
    n = given.n
    vectors = (n + 15) // 16
    for unit in range(first, last):
        group, k = unit // vectors, unit % vectors * 16
        matrix, start, end = group_of(given.groups, group) if given.groups != 0 else (0, 0, rows)
        place = given.sums + matrix * given.sums_bytes + 8 * k
        total = load_f64x16(place)
        for t in range(start, end):
            total = add_square(total, load_f32x16_part(given.x + t * given.x_bytes + 4 * k, n - k))
        store_f64x16(place, total)
        if k == 0:
            count = given.counts + 8 * matrix
            store_i64(count, load_i64(count) + end - start)
