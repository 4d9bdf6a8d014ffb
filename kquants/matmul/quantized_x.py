"""Where quantized x lies: its columns in groups of 256."""

from typing import Any

from kquants.compiler.decorators import inline
from kquants.formats.unpacking import GROUP
from kquants.layout import X_GROUP
from kquants.matmul.products import Product
from kquants.matmul.scaling import Scaling


@inline
def group_index(product: Product, t: int, b: int) -> int:
    """Groups of x before that of block b of row t: those of a column group of all rows of the op lie side by side."""
    return b // GROUP * product.x_rows + product.first + t


def x_address(scaling: Scaling) -> Any:
    """`x_address(product, t, b)`: the address of block b of row t of x, and that of its scale and sums.

    Formats with super-blocks have one record of scale and sums for the whole group of 256.
    """
    group_bytes, block_bytes = scaling.X_GROUP_BYTES, scaling.X_BLOCK_BYTES

    @inline
    def place(product: Product, t: int, b: int) -> tuple[int, int]:
        group = product.x + group_index(product, t, b) * group_bytes
        return group + 32 * (b % GROUP), group + X_GROUP + b % GROUP * block_bytes

    return place
