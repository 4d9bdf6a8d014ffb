"""How pages of each KV type are read."""

from typing import Any, NamedTuple

from kquants.attention.float_pages import (
    Load,
    copy_query,
    define_float_ops,
    f16_to_float,
    in_place,
    prefetch_bytes,
    prefetch_nothing,
)
from kquants.attention.latent_pages import f16_latents, f32_latents, q8_latents
from kquants.attention.micro_tile import DECODE_QUERIES, PREFILL_QUERIES, MicroTileOps
from kquants.attention.q8_pages import add_q8_values, q8_scores, q8_to_float, quantize_query
from kquants.compiler.decorators import inline


class PageOps(NamedTuple):
    """What micro-tiles of queries do with a page; compiled into the kernels. Addresses are int64.

    `scores(q, stride, keys, key_dim, p, next_page)`: write the dot products of each query with all keys of a page to
    p. `add_values(p, seen, values, width, to, stride, next_page)`: to the sums of each query at `to`, add the values of
    the cells of a page that the queries see (`seen`, SeenCells) times their weights at p. Of the cells that not all
    queries see, a query sees those whose weight is not below 0. Both prefetch `next_page`, the page that is read next.
    """

    scores: Any
    add_values: Any
    scores_queries: int = DECODE_QUERIES
    """Queries of a micro-tile of scores."""
    values_queries: int = DECODE_QUERIES
    """Queries of a micro-tile of values."""


class PageReader(NamedTuple):
    """How pages of a type are read.

    `load_query(x, width, q)`: write a query, `width` float32 and 16 zeros at x, to q in the form that `scores` reads.
    `few` is for a few queries. For more, `convert_keys(keys, key_dim, buffer, next_page)` and
    `convert_values(values, width, key_width, buffer, next_page)` write a page to the buffer in the form that `many`
    reads, and return where it is. `convert_few_values` does so for `few`. With `values_in_keys` values are the first of
    the keys, and a page has nothing else.
    """

    load_query: Any
    few: PageOps
    convert_keys: Any
    convert_values: Any
    many: PageOps
    convert_few_values: Any
    values_in_keys: bool = False


def _float_ops(element: int, load: Load, prefetch_next: Any, queries: int) -> PageOps:
    return PageOps(*define_float_ops(element, load, prefetch_next, queries), queries, queries)


def _load_f32(ops: MicroTileOps) -> Any:
    return ops.load_f32


_F16 = _float_ops(2, lambda ops: ops.load_f16, prefetch_bytes, DECODE_QUERIES)
_F32 = _float_ops(4, _load_f32, prefetch_bytes, DECODE_QUERIES)
_MANY_F32 = _F32 if PREFILL_QUERIES == DECODE_QUERIES else _float_ops(4, _load_f32, prefetch_bytes, PREFILL_QUERIES)
_CONVERTED = _float_ops(4, _load_f32, prefetch_nothing, PREFILL_QUERIES)
_Q8 = PageOps(q8_scores, add_q8_values)
_MANY_Q8 = PageOps(q8_scores, _CONVERTED.add_values, DECODE_QUERIES, PREFILL_QUERIES)

_CONVERTED_FEW = _float_ops(4, _load_f32, prefetch_nothing, DECODE_QUERIES)


def _beside_keys(convert: Any) -> Any:
    """`convert_values` where values lie apart from keys, whose width then does not matter."""

    @inline
    def convert_values(values: int, width: int, key_width: int, buffer: int, next_page: int) -> int:
        return int(convert(values, width, buffer, next_page))

    return convert_values


_in_place, _f16_values, _q8_values = _beside_keys(in_place), _beside_keys(f16_to_float), _beside_keys(q8_to_float)

READERS = {
    "f16": PageReader(copy_query, _F16, f16_to_float, _f16_values, _CONVERTED, _in_place),
    "f32": PageReader(copy_query, _F32, in_place, _in_place, _MANY_F32, _in_place),
    "q8_0": PageReader(quantize_query, _Q8, in_place, _q8_values, _MANY_Q8, _in_place),
}
"""By KV type."""


def _latent(reader: PageReader, convert_values: Any) -> PageReader:
    """How pages are read whose values are part of the keys: these are converted for any number of queries."""
    few = reader.few._replace(add_values=_CONVERTED_FEW.add_values)
    many = reader.many._replace(add_values=_CONVERTED.add_values, values_queries=PREFILL_QUERIES)
    return PageReader(reader.load_query, few, reader.convert_keys, convert_values, many, convert_values, True)


LATENT_READERS = {
    "f16": _latent(READERS["f16"], f16_latents),
    "f32": _latent(READERS["f32"], f32_latents),
    "q8_0": _latent(READERS["q8_0"], q8_latents),
}
"""By KV type, for latent attention."""
