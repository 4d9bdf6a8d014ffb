"""What a micro-tile of queries does with one page of float keys or values of a KV head (f16, f32).

Every sum has one order, that of key_dim or of the cells, whatever the number of queries and vectors of a micro-tile
and whether the page was converted to float32 before: all ways give the same bits. What the functions do is described in
`kquants.attention.page_readers`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kquants.attention.micro_tile import DECODE_QUERIES, WIDE_VECTORS, MicroTileOps, micro_tile_ops
from kquants.compiler.decorators import inline
from kquants.kv_layout import KV_BLOCK, PAGE
from kquants.simd import copy, load_f16x16, prefetch, prefetch_lines, store_f32x16

WEIGHTS_BYTES = 4 * KV_BLOCK
"""Bytes from the scores or weights of one query to those of the next."""


class SeenCells(NamedTuple):
    """Cells of a page: some query of a micro-tile sees first … end - 1, all of them see all_from … all_to - 1."""

    first: int
    all_from: int
    all_to: int
    end: int


Load = Callable[[MicroTileOps], Any]
"""Chooses the operation that loads `v`, for micro-tiles of some number of vectors."""


@inline
def prefetch_bytes(address: int, n: int) -> None:
    """Prefetch n bytes."""
    prefetch_lines(address, (n + 63) // 64, 64)


@inline
def prefetch_nothing(address: int, n: int) -> None:
    """Do nothing: what is read next is in the cache."""


@inline
def in_place(address: int, width: int, buffer: int, next_page: int) -> int:
    """Convert nothing: the page is read where it lies."""
    return address


def _add_columns(n: int, queries: int, load: Load, element: int, prefetch_next: Any) -> Any:
    ops = micro_tile_ops(n, queries)
    load_cell, load_sums, add, add_seen, store = load(ops), ops.load, ops.add, ops.add_seen, ops.store

    @inline
    def add_columns(
        p: int, seen: SeenCells, values: int, width: int, d: int, to: int, stride: int, next_page: int
    ) -> None:
        """Add `n` vectors of each cell, from value d on."""
        sums = load_sums(to, stride)
        for c in range(seen.first, seen.all_from):
            sums = add_seen(sums, load_cell(values, c, d, width), p + 4 * c, WEIGHTS_BYTES)
        for c in range(seen.all_from, seen.all_to):
            prefetch_next(next_page + (c * width + d) * element, 16 * n * element)
            sums = add(sums, load_cell(values, c, d, width), p + 4 * c, WEIGHTS_BYTES)
        for c in range(seen.all_to, seen.end):
            sums = add_seen(sums, load_cell(values, c, d, width), p + 4 * c, WEIGHTS_BYTES)
        store(to, sums, stride)

    return add_columns


def define_add_values(load: Load, element: int, prefetch_next: Any, queries: int = DECODE_QUERIES) -> Any:
    """`add_values` for values of `element` bytes; what `load` returns is called with (values, cell, d, width)."""
    wide, narrow = (_add_columns(n, queries, load, element, prefetch_next) for n in (WIDE_VECTORS, 1))

    @inline
    def add_values(p: int, seen: SeenCells, values: int, width: int, to: int, stride: int, next_page: int) -> None:
        whole = width - width % (16 * WIDE_VECTORS)
        for d in range(0, whole, 16 * WIDE_VECTORS):
            wide(p, seen, values, width, d, to + 4 * d, stride, next_page)
        for d in range(whole, width, 16):
            narrow(p, seen, values, width, d, to + 4 * d, stride, next_page)

    return add_values


@inline
def copy_query(x: int, width: int, q: int) -> None:
    """A query stays float32."""
    copy(q, x, 4 * width)


def _define_scores(load: Load, element: int, prefetch_next: Any, queries: int) -> Any:
    ops = micro_tile_ops(WIDE_VECTORS, queries)
    zero, add, store, load_keys = ops.zero, ops.add, ops.store, load(ops)

    @inline
    def scores(q: int, stride: int, keys: int, key_dim: int, p: int, next_page: int) -> None:
        for j in range(0, PAGE, 16 * WIDE_VECTORS):
            sums = zero()
            for d in range(key_dim):
                at = (d * PAGE + j) * element
                prefetch_next(next_page + at, 16 * WIDE_VECTORS * element)
                sums = add(sums, load_keys(keys + at), q + 4 * d, stride)
            store(p + 4 * j, sums, WEIGHTS_BYTES)

    return scores


def _float_cell(load: Any, element: int) -> Any:
    @inline
    def load_cell(values: int, c: int, d: int, width: int) -> Any:
        return load(values + (c * width + d) * element)

    return load_cell


@inline
def f16_to_float(page: int, width: int, buffer: int, next_page: int) -> int:
    """Write PAGE · width float16 to the buffer as float32."""
    for i in range(0, width * PAGE, 32):
        prefetch(next_page + 2 * i)
        store_f32x16(buffer + 4 * i, load_f16x16(page + 2 * i))
        store_f32x16(buffer + 4 * i + 64, load_f16x16(page + 2 * i + 32))
    return buffer


def define_float_ops(element: int, load: Load, prefetch_next: Any, queries: int) -> tuple[Any, Any]:
    """`scores` and `add_values` of pages of floats of `element` bytes, for micro-tiles of `queries` queries."""
    return (
        _define_scores(load, element, prefetch_next, queries),
        define_add_values(lambda ops: _float_cell(load(ops), element), element, prefetch_next, queries),
    )
