"""How pages of each type are read."""

from typing import Any, NamedTuple

from kquants.bundles import define_floats, expand_f16, fetch, fetch_nothing, stay, take_floats
from kquants.bundles_q8 import expand_q8, gather_q8, scores_q8, take_q8
from kquants.lanes import MANY_QUERIES, QUERIES


class Reader(NamedTuple):
    """How pages of a type are read. All are compiled into the kernels; addresses are int64.

    `take(x, width, q)`: write a query, `width` float32 at x and 16 zeros, to q as `scores` wants it.
    `scores(q, stride, keys, head_dim, p, ahead)`: the products of each query with all keys of a page, to p.
    `gather(p, seen, cells, values, width, to, stride, ahead)`: to the values of each query at `to`, add those of
    the page's first `cells` cells times their weights at p. All queries see the first `seen`; of the others, each
    those whose weight is not below 0.
    `expand_keys(keys, head_dim, room, ahead)` and `expand_values(values, width, room, ahead)`: write a page to
    `room` as `expanded_scores` and `expanded_gather` want it, and return where it is: many bundles take it there, of
    `scores_together` and of `gather_together` queries; others are of QUERIES.
    `ahead` is the page that will be wanted next: it is fetched meanwhile.
    """

    take: Any
    scores: Any
    gather: Any
    expand_keys: Any
    expand_values: Any
    expanded_scores: Any
    expanded_gather: Any
    scores_together: int
    gather_together: int


_F16 = define_floats(2, lambda some: some.load_f16, fetch)
_F32 = define_floats(4, lambda some: some.load_f32, fetch)
_MANY_F32 = define_floats(4, lambda some: some.load_f32, fetch, MANY_QUERIES)
_EXPANDED = define_floats(4, lambda some: some.load_f32, fetch_nothing, MANY_QUERIES)

READERS = {
    "f16": Reader(take_floats, *_F16, expand_f16, expand_f16, *_EXPANDED, MANY_QUERIES, MANY_QUERIES),
    "f32": Reader(take_floats, *_F32, stay, stay, *_MANY_F32, MANY_QUERIES, MANY_QUERIES),
    "q8_0": Reader(take_q8, scores_q8, gather_q8, stay, expand_q8, scores_q8, _EXPANDED[1], QUERIES, MANY_QUERIES),
}
