"""Which weights a thread prefetches when it reaches the end of a matrix, or of its share of an op.

A thread at the end of its share prefetches its share of the next matmul's weights: they come while it waits for others,
and while it works on the ops between. At the end of a matrix of a stack it prefetches the next group's matrix. The next
matmul may multiply groups that are not listed yet. The list then still has the groups of an earlier op, and the thread
prefetches its share of those.
"""

from kquants.compiler.decorators import inline
from kquants.layout import SHARE_END, THREAD, THREADS, TILE_ROWS
from kquants.matmul.products import Product, matmul_op, tile_count, tile_of, unit_address
from kquants.simd import load_i64
from kquants.threadpool.interpreter import share_start, unit_count


@inline
def next_matmul_share(op: int, scratch: int) -> tuple[int, int]:
    """The address where this thread's share of W ends, and bytes from there to its share of the next W, or 0."""
    end = unit_address(op, load_i64(scratch + SHARE_END) - 1) + TILE_ROWS * matmul_op(op).row_bytes
    then = matmul_op(op).next_matmul
    if then == 0:
        return end, 0
    start = share_start(unit_count(then, 1), load_i64(scratch + THREAD), load_i64(scratch + THREADS))
    return end, unit_address(then, start) - end


@inline
def read_on(op: int, product: Product, group: int, scratch: int) -> tuple[int, int]:
    """The end of what is read of a group's W, and bytes from there to what is read next: the next W, or next share."""
    tiles = tile_count(op)
    unit = (group + 1) * tiles
    if unit >= load_i64(scratch + SHARE_END):
        return next_matmul_share(op, scratch)
    end = tile_of(product, tiles)
    return end, unit_address(op, unit) - end
