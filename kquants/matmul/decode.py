"""A few rows of x times a tile of W, which is multiplied straight from W: they wait for the memory, or nearly.

Lanes are 16 rows of W or, with split-K, the parts of a few rows, which lie behind each other in the file. These are
multiplied by different parts of x: once for each product, a thread interleaves the words of these parts in its scratch.

What is read next is prefetched beside the products: `kquants.matmul.read_on`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kquants.compiler.decorators import inline
from kquants.formats.unpacking import GROUP
from kquants.layout import TILE_ROWS, X_GROUP
from kquants.matmul.decode_tile import multiply_tile, sums_of
from kquants.matmul.products import Product
from kquants.matmul.quantized_x import group_index, x_address
from kquants.matmul.split_k import add_parts, interleave
from kquants.matmul.strategy import Strategy


def decode_of(strategy: Strategy) -> Any:
    """`decode(parts, rows, product, w, sums, x, place, end, next_offset)`: the sums of a tile with rows of x.

    Rows of x are at most the strategy's `decode_rows`: 3 rows are computed as 4, 5 as 8; the extra rows are read from
    the padding behind x. With split-K, `x` is where they are interleaved. `place` is the address of the tile in the
    file, w or what it was copied from. `end` and `next_offset` are those of `kquants.matmul.read_on`. Behind the sums
    are those of the parts, [parts][rows multiplied][16].
    """
    whole = _by_rows(strategy.decode_rows, partial(_decode_whole, strategy))

    @inline
    def decode(parts: int, *arguments: Any) -> None:
        whole(*arguments)

    for parts in sorted(strategy.split_k, reverse=True):
        decode = _if_parts(parts, _by_rows(strategy.decode_rows, partial(_decode_parts, strategy, parts)), decode)
    return decode


def interleave_x_of(strategy: Strategy) -> Any:
    """`interleave_x(parts, product, to)`: store x with the words of its parts interleaved, where rows are split."""

    @inline
    def interleave_x(parts: int, product: Product, to: int) -> None:
        pass

    for parts in sorted(strategy.split_k, reverse=True):
        interleave_x = _if_parts(parts, _interleave_x(strategy, parts), interleave_x)
    return interleave_x


def _if_parts(parts: int, split: Any, otherwise: Any) -> Any:
    """`call(n, …)`: `split(…)` if n is `parts`, else `otherwise(n, …)`."""

    @inline
    def call(n: int, *arguments: Any) -> None:
        if n == parts:
            split(*arguments)
        else:
            otherwise(n, *arguments)

    return call


def _by_rows(most: int, decode_of_most: Callable[[int], Any]) -> Any:
    """`decode(rows, …)` for up to `most` rows: by what multiplies one, or else two at once, or four, …"""
    decode = decode_of_most(most)
    while most > 1:
        most //= 2
        decode = _dispatch_by_rows(most, decode_of_most(most), decode)
    return decode


def _dispatch_by_rows(most: int, few: Any, more: Any) -> Any:
    """`decode(rows, …)`: calls `few` for up to `most` rows, else `more`."""

    @inline
    def decode(rows: int, *arguments: Any) -> None:
        if rows <= most:
            few(rows, *arguments)
        else:
            more(rows, *arguments)

    return decode


def _decode_whole(strategy: Strategy, most: int) -> Any:
    """`decode(rows, product, w, sums, x, place, end, next_offset)`: sums of whole rows of W and the product's x."""
    fmt, group, has_rest = strategy.fmt, strategy.group, strategy.has_rest
    group_bytes, blocks, block_bytes = group.BLOCK_BYTES, fmt.BLOCKS, fmt.BLOCK_BYTES
    multiply_group, multiply_rest = (multiply_tile(strategy, each, most, 1) for each in (group, fmt))
    (zeros, store_sums), x_at = sums_of(most), x_address(strategy.scaling)

    @inline
    def decode(rows: int, product: Product, w: int, sums: int, x: int, place: int, end: int, next_offset: int) -> None:
        n, row_bytes, y = product.columns, product.row_bytes, zeros()
        groups, next_tile = n // (32 * GROUP), place + TILE_ROWS * row_bytes
        for i in range(groups):
            done, (of_group, scales) = i * group_bytes, x_at(product, 0, i * GROUP)
            y = multiply_group(y, w + done, row_bytes, next_tile + TILE_ROWS * done, end, next_offset, of_group, scales)
        if has_rest:
            for b in range(groups * GROUP, n // 32, blocks):
                done, (of_block, scales) = b // blocks * block_bytes, x_at(product, 0, b)
                y = multiply_rest(
                    y, w + done, row_bytes, next_tile + TILE_ROWS * done, end, next_offset, of_block, scales
                )
        store_sums(sums, y)

    return decode


def _interleave_x(strategy: Strategy, parts: int) -> Any:
    """`interleave_x(product, to)` for a number of parts."""
    store, x_bytes = interleave(parts), strategy.scaling.X_GROUP_BYTES

    @inline
    def interleave_x(product: Product, to: int) -> None:
        groups, group_bytes = product.columns // X_GROUP // parts, product.rows * x_bytes
        part_bytes = groups * product.x_rows * x_bytes
        for i in range(groups):
            x, to_group = product.x + group_index(product, 0, i * GROUP) * x_bytes, to + i * parts * group_bytes
            for k in range(0, group_bytes, 64):
                store(to_group + parts * k, x + k, part_bytes)

    return interleave_x


def _decode_parts(strategy: Strategy, parts: int, most: int) -> Any:
    """`decode(rows, product, w, sums, x, place, end, next_offset)`: the sums with rows of W in some parts."""
    group_bytes, x_bytes = strategy.group.BLOCK_BYTES, parts * strategy.scaling.X_GROUP_BYTES
    multiply, add = multiply_tile(strategy, strategy.group, most, parts), add_parts(parts)
    zeros, store_sums = sums_of(most)

    @inline
    def decode(rows: int, product: Product, w: int, sums: int, x: int, place: int, end: int, next_offset: int) -> None:
        groups, part_bytes, of_parts = product.columns // X_GROUP // parts, product.row_bytes // parts, sums + 64 * most
        for k in range(parts):
            tile, y = w + k * TILE_ROWS * part_bytes, zeros()
            next_tile = place + (k + 1) * TILE_ROWS * part_bytes
            for i in range(groups):
                done, to_x = i * group_bytes, x + i * rows * x_bytes
                ahead = next_tile + TILE_ROWS * done
                y = multiply(y, tile + done, part_bytes, ahead, end, next_offset, to_x, to_x + X_GROUP * parts)
            store_sums(of_parts + 64 * most * k, y)
        for t in range(rows):
            add(sums + 64 * t, of_parts + 64 * t, 64 * most)

    return decode
