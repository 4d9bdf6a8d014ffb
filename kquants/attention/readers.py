"""How pages of each type are read."""

from typing import Any, NamedTuple

from kquants.attention.bundles import Load, define_floats, expand_f16, fetch, fetch_nothing, stay, take_floats
from kquants.attention.bundles_q8 import expand_q8, gather_q8, scores_q8, take_q8
from kquants.attention.lanes import MANY_QUERIES, QUERIES, Operations


class Bundles(NamedTuple):
    """How queries go through a page, some together. All are compiled into the kernels; addresses are int64.

    `scores(q, stride, keys, head_dim, p, ahead)`: the products of each query with all keys of a page, to p.
    `gather(p, seen, cells, values, width, to, stride, ahead)`: to the values of each query at `to`, add those of
    the page's first `cells` cells times their weights at p. All queries see the first `seen`; of the others, each
    those whose weight is not below 0.
    `ahead` is the page that will be wanted next: it is fetched meanwhile.
    """

    scores: Any
    gather: Any
    scores_together: int = QUERIES
    gather_together: int = QUERIES


class Reader(NamedTuple):
    """How pages of a type are read.

    `take(x, width, q)`: write a query, `width` float32 at x and 16 zeros, to q as `scores` wants it.
    `expand_keys(keys, head_dim, room, ahead)` and `expand_values(values, width, room, ahead)`: write a page to
    `room` as `many` wants it, and return where it is: that is for more than a few queries.
    """

    take: Any
    few: Bundles
    expand_keys: Any
    expand_values: Any
    many: Bundles


def _floats(element: int, load: Load, fetch: Any, queries: int) -> Bundles:
    return Bundles(*define_floats(element, load, fetch, queries), queries, queries)


def _load_f32(some: Operations) -> Any:
    return some.load_f32


_F16 = _floats(2, lambda some: some.load_f16, fetch, QUERIES)
_F32 = _floats(4, _load_f32, fetch, QUERIES)
_MANY_F32 = _F32 if MANY_QUERIES == QUERIES else _floats(4, _load_f32, fetch, MANY_QUERIES)
_EXPANDED = _floats(4, _load_f32, fetch_nothing, MANY_QUERIES)
_Q8, _MANY_Q8 = Bundles(scores_q8, gather_q8), Bundles(scores_q8, _EXPANDED.gather, QUERIES, MANY_QUERIES)

READERS = {
    "f16": Reader(take_floats, _F16, expand_f16, expand_f16, _EXPANDED),
    "f32": Reader(take_floats, _F32, stay, stay, _MANY_F32),
    "q8_0": Reader(take_q8, _Q8, stay, expand_q8, _MANY_Q8),
}
