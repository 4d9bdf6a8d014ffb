"""What a bundle of queries does with one page of a KV head, by the type of the page.

The order of every sum is that of head_dim, or of the cells, however many vectors there are in a bundle and whether
the page was expanded to float32 before: so all ways give the same bits.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kquants.decorators import inline
from kquants.lanes import WIDE, Operations, operations
from kquants.layout import PAGE, SPAN_PAGES
from kquants.simd import copy, load_f16x16, prefetch, store_f32x16

WEIGHTS_BYTES = 4 * PAGE * SPAN_PAGES
"""Bytes from the scores or weights of one query to those of the next."""

_WIDE, _NARROW = operations(WIDE), operations(1)


class Reader(NamedTuple):
    """How pages of a type are read. Each is compiled into the kernels that use it; addresses are int64.

    `take(x, width, q)`: write a query, `width` float32 at x and 16 zeros, to q as `scores` wants it.
    `scores(q, stride, keys, head_dim, p, ahead)`: the products of each query with all keys of a page, to p.
    `gather(p, seen, cells, values, width, to, stride, ahead)`: to the values of each query at `to`, add those of
    the page's first `cells` cells times their weights at p. All queries see the first `seen`; of the others, each
    those whose weight is not below 0.
    `expand_keys(keys, head_dim, room, ahead)` and `expand_values(values, width, room, ahead)`: write a page to
    `room` as `expanded_scores` and `expanded_gather` want it, and return where it is: many bundles take it there.
    `ahead` is the page that will be wanted next: it is fetched meanwhile.
    """

    take: Any
    scores: Any
    gather: Any
    expand_keys: Any
    expand_values: Any
    expanded_scores: Any
    expanded_gather: Any


def _float_scores(element: int, some: Operations, load: Any, fetch: Any) -> Any:
    zero, add, store = some.zero, some.add, some.store

    @inline
    def scores(q: int, stride: int, keys: int, head_dim: int, p: int, ahead: int) -> None:
        for j in range(0, PAGE, 16 * WIDE):
            sums = zero()
            for d in range(head_dim):
                at = (d * PAGE + j) * element
                fetch(ahead + at, 16 * WIDE * element)
                sums = add(sums, load(keys + at), q + 4 * d, stride)
            store(p + 4 * j, sums, WEIGHTS_BYTES)

    return scores


def _float_part(element: int, n: int, some: Operations, load: Any, fetch: Any) -> Any:
    load_sums, add, add_seen, store = some.load, some.add, some.add_seen, some.store

    @inline
    def gather(p: int, seen: int, cells: int, values: int, row: int, to: int, stride: int, ahead: int) -> None:
        """Of `n` vectors of values; `row` bytes from cell to cell."""
        sums = load_sums(to, stride)
        for c in range(seen):
            fetch(ahead + c * row, 16 * n * element)
            sums = add(sums, load(values + c * row), p + 4 * c, WEIGHTS_BYTES)
        for c in range(seen, cells):
            sums = add_seen(sums, load(values + c * row), p + 4 * c, WEIGHTS_BYTES)
        store(to, sums, stride)

    return gather


def _float_gather(element: int, wide: Any, narrow: Any) -> Any:
    @inline
    def gather(p: int, seen: int, cells: int, values: int, width: int, to: int, stride: int, ahead: int) -> None:
        whole, row = width - width % (16 * WIDE), width * element
        for d in range(0, whole, 16 * WIDE):
            at = d * element
            wide(p, seen, cells, values + at, row, to + 4 * d, stride, ahead + at)
        for d in range(whole, width, 16):
            at = d * element
            narrow(p, seen, cells, values + at, row, to + 4 * d, stride, ahead + at)

    return gather


@inline
def _take(x: int, width: int, q: int) -> None:
    copy(q, x, 4 * width)


@inline
def _stay(address: int, width: int, room: int, ahead: int) -> int:
    return address


@inline
def _expand_f16(halves: int, width: int, room: int, ahead: int) -> int:
    for i in range(0, width * PAGE, 32):
        prefetch(ahead + 2 * i)
        store_f32x16(room + 4 * i, load_f16x16(halves + 2 * i))
        store_f32x16(room + 4 * i + 64, load_f16x16(halves + 2 * i + 32))
    return room


@inline
def _fetch(address: int, n: int) -> None:
    for line in range(0, n, 64):
        prefetch(address + line)


@inline
def _fetch_nothing(address: int, n: int) -> None:
    pass


def _floats(element: int, load: Callable[[Operations], Any], fetch: Any = _fetch) -> tuple[Any, Any]:
    """`scores` and `gather`."""
    wide = _float_part(element, WIDE, _WIDE, load(_WIDE), fetch)
    narrow = _float_part(element, 1, _NARROW, load(_NARROW), fetch)
    return _float_scores(element, _WIDE, load(_WIDE), fetch), _float_gather(element, wide, narrow)


_F16 = _floats(2, lambda some: some.load_f16)
_F32 = _floats(4, lambda some: some.load_f32)
_EXPANDED = _floats(4, lambda some: some.load_f32, _fetch_nothing)

READERS = {
    "f16": Reader(_take, *_F16, _expand_f16, _expand_f16, *_EXPANDED),
    "f32": Reader(_take, *_F32, _stay, _stay, *_F32),
}
