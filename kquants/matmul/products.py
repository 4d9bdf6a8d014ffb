"""What a chunk of work multiplies: one matrix, and some of the rows of x and y that belong to it.

All rows of an op belong to its matrix W. In a grouped op, groups of consecutive rows belong each to one matrix of a
stack. A product has at most SLICE_ROWS rows, for which scratch has room: more go one slice after the other.
"""

from typing import NamedTuple

from kquants.compiler.decorators import Vector, inline
from kquants.layout import SLICE_ROWS, TILE_ROWS
from kquants.matmul.sums import write_or_add
from kquants.records import MatmulOp
from kquants.simd import add_f32, load_f32, load_f32x16, load_f32x16_part, mul_f32, splat_f32
from kquants.threadpool.interpreter import arguments_of, group_of

matmul_op = arguments_of(MatmulOp)


class Product(NamedTuple):
    """Rows of y = factor · W x + bias, or y += factor · W x + bias; see `kquants.records.MatmulOp`."""

    w: int
    w_rows: int
    columns: int
    row_bytes: int
    bias: int
    """Address of the bias of W, or 0."""
    factor: int
    """Address of the factor of W, or 0."""
    x: int
    """Where the x of the op begins, as rows of quantized x are interleaved."""
    x_bytes: int
    x_rows: int
    """Rows of x of the op."""
    first: int
    """The first of these rows that belongs to the product."""
    rows: int
    y: int
    """The first row of y that belongs to the product."""
    y_bytes: int
    accumulate: int


@inline
def tile_count(op: int) -> int:
    """The tiles of a matrix."""
    return (matmul_op(op).rows + TILE_ROWS - 1) // TILE_ROWS


@inline
def matmul_group(op: int, rows: int, group: int) -> tuple[int, int, int]:
    """The matrix of a group, its first row, and the end of its rows; an op without groups has one, of all its rows."""
    groups = matmul_op(op).groups
    return group_of(groups, group) if groups != 0 else (0, 0, rows)


@inline
def unit_address(op: int, unit: int) -> int:
    """Where the tile of a unit of work begins."""
    given, tiles = matmul_op(op), tile_count(op)
    matrix, _, _ = matmul_group(op, 0, unit // tiles)
    return given.w + matrix * given.matrix_bytes + unit % tiles * TILE_ROWS * given.row_bytes


@inline
def product_of(op: int, rows: int, group: int) -> Product:
    """All rows of a group; the op has `rows` rows."""
    given, (matrix, first, end) = matmul_op(op), matmul_group(op, rows, group)
    return Product(
        given.w + matrix * given.matrix_bytes,
        given.rows,
        given.columns,
        given.row_bytes,
        given.bias + matrix * given.bias_bytes if given.bias != 0 else 0,
        given.factors + 4 * matrix if given.factors != 0 else 0,
        given.x,
        given.x_bytes,
        rows,
        first,
        end - first,
        given.y + first * given.y_bytes,
        given.y_bytes,
        given.accumulate,
    )


@inline
def slice_of(product: Product, t: int) -> Product:
    """The slice that begins with row t of a product."""
    return Product(
        product.w,
        product.w_rows,
        product.columns,
        product.row_bytes,
        product.bias,
        product.factor,
        product.x,
        product.x_bytes,
        product.x_rows,
        product.first + t,
        min(product.rows - t, SLICE_ROWS),
        product.y + t * product.y_bytes,
        product.y_bytes,
        product.accumulate,
    )


@inline
def tile_of(product: Product, tile: int) -> int:
    """Where a tile of W begins."""
    return product.w + tile * TILE_ROWS * product.row_bytes


@inline
def rows_of_tile(product: Product, tile: int) -> tuple[int, int]:
    """The first row of a tile, and how many it has."""
    start = tile * TILE_ROWS
    return start, min(TILE_ROWS, product.w_rows - start)


@inline
def put_tile(product: Product, t: int, tile: int, sums: Vector) -> None:
    """Row t of y, at the rows of a tile of W: the sums times the factor, and the bias."""
    start, count = rows_of_tile(product, tile)
    if product.factor != 0:
        sums = mul_f32(sums, splat_f32(load_f32(product.factor)))
    if product.bias != 0:
        bias = product.bias + 4 * start
        sums = add_f32(sums, load_f32x16(bias) if count == TILE_ROWS else load_f32x16_part(bias, count))
    write_or_add(product.y + t * product.y_bytes + 4 * start, sums, count, product.accumulate)
