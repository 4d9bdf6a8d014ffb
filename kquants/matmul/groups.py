"""Where W and x lie: tiles of 16 rows, and for quantized formats columns in groups of 256."""

from typing import Any

from kquants.compiler.decorators import inline
from kquants.layout import TILE_ROWS, X_GROUP
from kquants.matmul.layouts import GROUP
from kquants.matmul.scaling import Scaling
from kquants.records import MatmulOp
from kquants.threadpool.interpreter import arguments_of

matmul_op = arguments_of(MatmulOp)


@inline
def tile_address(op: int, tile: int) -> int:
    """Where a tile of W begins."""
    return matmul_op(op).w + tile * TILE_ROWS * matmul_op(op).row_bytes


@inline
def rows_of_tile(op: int, unit: int) -> tuple[int, int]:
    """The first row of a tile, and how many it has."""
    start = unit * TILE_ROWS
    return start, min(TILE_ROWS, matmul_op(op).rows - start)


def x_address(scaling: Scaling) -> Any:
    """`x_address(op, rows, t, b)`: the address of block b of row t of x, and that of its scale and sums.

    Formats with super-blocks have one record of scale and sums for the whole group of 256.
    """
    group_bytes, block_bytes = scaling.X_GROUP_BYTES, scaling.X_BLOCK_BYTES

    @inline
    def place(op: int, rows: int, t: int, b: int) -> tuple[int, int]:
        group = matmul_op(op).x + (b // GROUP * rows + t) * group_bytes
        return group + 32 * (b % GROUP), group + X_GROUP + b % GROUP * block_bytes

    return place
