"""Many rows of x times float weights, of which some columns of a tile are packed at a time."""

from typing import Any

import numba as nb

from kquants.compiler.decorators import inline
from kquants.formats.rows import float_row_of
from kquants.matmul.float_ops import FloatOps
from kquants.matmul.products import Product, rows_of_tile
from kquants.matmul.sums import (
    REGISTER_LANES,
    SUMS_BYTES,
    W_ROWS,
    X_ROWS,
    load_registers,
    store_registers,
    whole_tiles,
    zero_registers,
)
from kquants.simd import copy, splat_f32, store_f32x16


def multiply_packed_of(ops: FloatOps, packed_bytes: int) -> Any:
    """`multiply(rows, w_rows, columns, w, x, x_bytes, sums, more)`: the sums of products of packed columns.

    They are added to what is there where `more`. W has whole register tiles of rows. Of x the last register tile is
    read whole, too: there is room for PADDING_ROWS.
    """
    add, step, w_size, x_size = ops.add_registers, ops.step, ops.w_bytes, ops.x_bytes

    @inline
    def multiply(rows: int, w_rows: int, columns: int, w: int, x: int, x_bytes: int, sums: int, more: int) -> None:
        for t in range(0, rows, X_ROWS):
            for r in range(0, w_rows, W_ROWS):
                for lane in range(0, 16, REGISTER_LANES):
                    of_w, of_x = w + r * packed_bytes + w_size * lane, x + t * x_bytes + x_size * lane
                    place = sums + t * SUMS_BYTES + 64 * r + 4 * lane
                    registers = load_registers(place) if more else zero_registers()
                    for k in range(0, columns, step):
                        registers = add(registers, of_w + w_size * k, of_x + x_size * k, x_bytes)
                    store_registers(place, registers)

    return multiply


def pack_of(fmt: Any, ops: FloatOps, packed_bytes: int) -> Any:
    """`pack(product, tile, k, columns, w)`: columns of a tile from k on, zeros behind the last.

    Returns how many rows there are then, whole register tiles: the last takes the place of those beyond it.
    """
    to_f32, file_size, size, step = float_row_of(fmt), fmt.WEIGHT_BYTES, ops.w_bytes, ops.step

    @inline
    def pack(product: Product, tile: int, k: int, columns: int, w: int) -> int:
        start, count = rows_of_tile(product, tile)
        w_rows = whole_tiles(count, W_ROWS)
        for i in range(w_rows):
            to, row = w + i * packed_bytes, product.w + (start + min(i, count - 1)) * product.row_bytes
            store_f32x16(to + size * (columns & ~(step - 1)), splat_f32(nb.float32(0)))
            if size == 2:
                copy(to, row + 2 * k, 2 * columns)
            else:
                to_f32(row + file_size * k, columns, to)
        return w_rows

    return pack
