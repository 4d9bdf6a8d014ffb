"""Blocks of a strip of unpacked tiles by all rows of x, sixteen rows at a time."""

from typing import Any

from kquants.compiler.decorators import inline
from kquants.formats.unpacking import GROUP
from kquants.layout import FEW_ROWS, STRIP
from kquants.matmul.amx_blocks import multiply_blocks
from kquants.matmul.layouts import ByteLayout
from kquants.matmul.prefill_unit import begin_and_end, multiply_unit, widen_x
from kquants.matmul.products import Product
from kquants.matmul.quantized_x import x_address
from kquants.matmul.scaling import units_of
from kquants.matmul.strategy import Strategy
from kquants.matmul.sums import sum_bytes
from kquants.simd import prefetch_lines

ROWS_AT_ONCE = 16
"""Rows of x that pass by one tile, or pair of tiles, and then by the next. (With AVX2 alone, where a strip of tiles
does not fit into the first-level cache, a Zen 4 reads prompts as fast by 128 rows; with AVX-512 up to 6 % slower.)"""


def multiply_rows(strategy: Strategy, prefetch: Any) -> Any:
    """`multiply(product, b, last, tiles, next_w, y, unpacked, sums)`: blocks b … last of all tiles by all rows of x.

    `prefetch` is called beside each ROWS_AT_ONCE rows of x. Rows of x to come are prefetched as well, in equal shares
    beside each tile: those of a group lie side by side, and behind the last one the next group.
    """
    tuning, scaling = strategy.tuning, strategy.scaling
    layout, most, place = strategy.layout(strategy.group, tuning), tuning.prefill_tiles, x_address(scaling)
    multiply_most = _multiply_tiles(strategy, most)
    multiply_alone = _multiply_tiles(strategy, 1) if most > 1 else multiply_most
    widens, group_bytes, x_bytes, tile_bytes = layout.WIDENS_X, scaling.X_GROUP_BYTES, layout.x_bytes, layout.tile_bytes
    x_share, x_ahead = _x_share(layout), tuning.prefill_x_ahead

    @inline
    def multiply(
        product: Product, b: int, last: int, tiles: int, next_w: int, y: int, unpacked: int, sums: int
    ) -> None:
        rows = product.rows
        dots, y_bytes = unpacked + STRIP * tile_bytes, sum_bytes(rows)
        for t in range(0, rows, ROWS_AT_ONCE):
            x_rows, (x, x_scales) = min(ROWS_AT_ONCE, rows - t), place(product, t, b)
            prefetch(product, last, t, x_rows, tiles, next_w, y)
            ahead = x + x_ahead * group_bytes if rows > FEW_ROWS else 0
            if widens:
                first = b % GROUP
                for r in range(x_rows):
                    widen_x(x - 32 * first + r * group_bytes, dots + r * x_bytes)
                x = dots + 64 * first
            for k in range(0, tiles, most):
                tile, y_tile = unpacked + k * tile_bytes, sums + k * y_bytes + 64 * t
                if tiles - k >= most:
                    multiply_most(last - b, x_rows, tile, x, x_scales, ahead, y_tile, y_bytes, dots)
                else:
                    multiply_alone(last - b, x_rows, tile, x, x_scales, ahead, y_tile, y_bytes, dots)
                if ahead != 0:
                    ahead += x_share

    return multiply


def _x_share(layout: ByteLayout) -> int:
    """Bytes of rows of x that are prefetched beside each tile, or pair of tiles: all tiles of a strip bring all."""
    return layout.tuning.prefill_rows * layout.scaling.X_GROUP_BYTES // STRIP


def _multiply_tiles(strategy: Strategy, tiles: int) -> Any:
    """`multiply(count, rows, tile, x, x_scales, ahead, sums, y_bytes, dots)`: the products of `tiles` tiles with x.

    They are unpacked for `count` blocks: GROUP, or as few as a row may end with. The sums of each tile are `y_bytes`
    further on than those of the one before it. If `ahead` is not 0, a share of rows of x is prefetched from there on.
    """
    by, has_rest = (_by_amx if strategy.tuning.amx else _by_vectors), strategy.has_rest
    whole = by(strategy, GROUP, tiles)
    rest = by(strategy, strategy.fmt.BLOCKS, tiles) if has_rest else whole

    @inline
    def multiply(
        count: int, rows: int, tile: int, x: int, x_scales: int, ahead: int, sums: int, y_bytes: int, dots: int
    ) -> None:
        if has_rest and count < GROUP:
            rest(rows, tile, x, x_scales, ahead, sums, y_bytes, dots)
        else:
            whole(rows, tile, x, x_scales, ahead, sums, y_bytes, dots)

    return multiply


def _by_vectors(strategy: Strategy, blocks: int, tiles: int) -> Any:
    """`multiply(rows, tile, x, x_scales, ahead, sums, y_bytes, dots)` for a number of blocks."""
    stored = strategy.layout(strategy.group, strategy.tuning)
    layout = stored if blocks == GROUP else strategy.layout(strategy.fmt, strategy.tuning)
    tile_bytes, scales_at = stored.tile_bytes, stored.scales_at
    units, multiply = units_of(layout.fmt), multiply_unit(layout, tiles, tile_bytes, scales_at)
    begin, end = begin_and_end(layout, tiles, tile_bytes)
    together, x_bytes = layout.tuning.prefill_rows // tiles, layout.x_bytes
    group_bytes, share_lines = layout.scaling.X_GROUP_BYTES, -(-_x_share(layout) // 64)

    @inline
    def multiply_all(
        rows: int, tile: int, x: int, x_scales: int, ahead: int, sums: int, y_bytes: int, dots: int
    ) -> None:
        for t in range(0, rows, together):
            to_x, to_scales, to_y = x + t * x_bytes, x_scales + t * group_bytes, sums + 64 * t
            if ahead != 0:
                prefetch_lines(ahead + t * group_bytes, share_lines, 64)
            y = begin(to_y, y_bytes)
            for unit in range(units):
                y = multiply(y, tile, to_x, to_scales, unit)
            end(y, to_y, y_bytes, tile + scales_at, to_scales)

    return multiply_all


def _by_amx(strategy: Strategy, blocks: int, tiles: int) -> Any:
    """The same with AMX tiles, of one tile of W, by way of `dots`."""
    multiply = multiply_blocks(strategy.layout(strategy.group, strategy.tuning), blocks)

    @inline
    def multiply_all(
        rows: int, tile: int, x: int, x_scales: int, ahead: int, sums: int, y_bytes: int, dots: int
    ) -> None:
        multiply(sums, tile, x, x_scales, dots)

    return multiply_all
