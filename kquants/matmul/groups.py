"""How products see W and x: tiles of rows, and of quantized formats columns in groups of 256."""

from typing import Any

from kquants.compiler.decorators import inline
from kquants.formats.pieces import Several
from kquants.layout import TILE_ROWS, X_GROUP
from kquants.matmul.scaling import scaling_of
from kquants.records import MatmulOp
from kquants.threadpool.interpreter import arguments_of

GROUP = 8
"""Blocks that are unpacked together: those of a super-block, or eight that have none."""

product_of = arguments_of(MatmulOp)


@inline
def tile_address(op: int, tile: int) -> int:
    """Where a tile of W begins."""
    return product_of(op).w + tile * TILE_ROWS * product_of(op).row_bytes


def in_groups(fmt: Any) -> tuple[Any, bool]:
    """The format with GROUP blocks at once, and whether a row may end with fewer."""
    return (fmt, False) if fmt.BLOCKS == GROUP else (Several(fmt, GROUP), True)


def of_x(fmt: Any) -> Any:
    """`of_x(op, rows, t, b)`: where block b of row t of x lies, and what belongs to it or to its super-block."""
    scaling = scaling_of(fmt)
    group_bytes, block_bytes = scaling.X_GROUP_BYTES, scaling.X_BLOCK_BYTES

    @inline
    def place(op: int, rows: int, t: int, b: int) -> tuple[int, int]:
        group = product_of(op).x + (b // GROUP * rows + t) * group_bytes
        return group + 32 * (b % GROUP), group + X_GROUP + b % GROUP * block_bytes

    return place
