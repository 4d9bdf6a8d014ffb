"""What a bundle of queries does with one page of keys or values of a KV head.

The order of every sum is that of head_dim, or of the cells, however many queries and vectors there are in a bundle and
whether the page was expanded to float32 before: so all ways give the same bits. The functions are those of
`kquants.attention.readers`.
"""

from collections.abc import Callable
from typing import Any

from kquants.attention.lanes import QUERIES, WIDE, Operations, operations
from kquants.compiler.decorators import inline
from kquants.kv_layout import KV_BLOCK_PAGES, PAGE
from kquants.simd import copy, load_f16x16, prefetch, prefetch_lines, store_f32x16

WEIGHTS_BYTES = 4 * PAGE * KV_BLOCK_PAGES
"""Bytes from the scores or weights of one query to those of the next."""

Load = Callable[[Operations], Any]
"""What loads v, for operations on so many vectors."""


@inline
def fetch(address: int, n: int) -> None:
    """Ask for n bytes."""
    prefetch_lines(address, (n + 63) // 64, 64)


@inline
def fetch_nothing(address: int, n: int) -> None:
    """What is read after this is in the cache."""


@inline
def stay(address: int, width: int, room: int, ahead: int) -> int:
    """A page that is read where it lies."""
    return address


def _gather_part(n: int, queries: int, load: Load, element: int, fetch: Any) -> Any:
    some = operations(n, queries)
    load_cell, load_sums, add, add_seen, store = load(some), some.load, some.add, some.add_seen, some.store

    @inline
    def gather(
        p: int, seen: int, cells: int, values: int, width: int, d: int, to: int, stride: int, ahead: int
    ) -> None:
        """Of `n` vectors, from value d of each cell on."""
        sums = load_sums(to, stride)
        for c in range(seen):
            fetch(ahead + (c * width + d) * element, 16 * n * element)
            sums = add(sums, load_cell(values, c, d, width), p + 4 * c, WEIGHTS_BYTES)
        for c in range(seen, cells):
            sums = add_seen(sums, load_cell(values, c, d, width), p + 4 * c, WEIGHTS_BYTES)
        store(to, sums, stride)

    return gather


def define_gather(load: Load, element: int, fetch: Any, queries: int = QUERIES) -> Any:
    """`gather` of values of `element` bytes; what `load` gives is called with (values, cell, d, width)."""
    wide, narrow = (_gather_part(n, queries, load, element, fetch) for n in (WIDE, 1))

    @inline
    def gather(p: int, seen: int, cells: int, values: int, width: int, to: int, stride: int, ahead: int) -> None:
        whole = width - width % (16 * WIDE)
        for d in range(0, whole, 16 * WIDE):
            wide(p, seen, cells, values, width, d, to + 4 * d, stride, ahead)
        for d in range(whole, width, 16):
            narrow(p, seen, cells, values, width, d, to + 4 * d, stride, ahead)

    return gather


@inline
def take_floats(x: int, width: int, q: int) -> None:
    """A query as it is."""
    copy(q, x, 4 * width)


def _scores(load: Load, element: int, fetch: Any, queries: int) -> Any:
    wide = operations(WIDE, queries)
    zero, add, store, load_keys = wide.zero, wide.add, wide.store, load(wide)

    @inline
    def scores(q: int, stride: int, keys: int, head_dim: int, p: int, ahead: int) -> None:
        for j in range(0, PAGE, 16 * WIDE):
            sums = zero()
            for d in range(head_dim):
                at = (d * PAGE + j) * element
                fetch(ahead + at, 16 * WIDE * element)
                sums = add(sums, load_keys(keys + at), q + 4 * d, stride)
            store(p + 4 * j, sums, WEIGHTS_BYTES)

    return scores


def _float_cell(load: Any, element: int) -> Any:
    @inline
    def load_cell(values: int, c: int, d: int, width: int) -> Any:
        return load(values + (c * width + d) * element)

    return load_cell


@inline
def expand_f16(halves: int, width: int, room: int, ahead: int) -> int:
    """PAGE · width float16 as float32."""
    for i in range(0, width * PAGE, 32):
        prefetch(ahead + 2 * i)
        store_f32x16(room + 4 * i, load_f16x16(halves + 2 * i))
        store_f32x16(room + 4 * i + 64, load_f16x16(halves + 2 * i + 32))
    return room


def define_floats(element: int, load: Load, fetch: Any, queries: int) -> tuple[Any, Any]:
    """`scores` and `gather` of pages of floats of `element` bytes, for so many queries together."""
    return (
        _scores(load, element, fetch, queries),
        define_gather(lambda some: _float_cell(load(some), element), element, fetch, queries),
    )
