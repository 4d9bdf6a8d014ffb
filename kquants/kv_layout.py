"""Sizes of KV pages and of what attention over them needs. Imports no compiler, so that callers need none.

A page holds the keys and values of PAGE tokens for all layers (its layout is in `kquants.attention.pages`). A KV block
is KV_BLOCK_PAGES pages of a sequence: the unit of a partial softmax (see `kquants.attention.attention`).
"""

from collections.abc import Callable
from typing import NamedTuple

PAGE = 64
"""Tokens of a KV page."""

KV_BLOCK_PAGES = 4
"""Pages of a KV block."""

QUERY_TILE = 72
"""The most queries that go through the pages together: a multiple of 4 and 6, the queries of a micro-tile, and enough
that converting a page to float32 takes a small part of the time."""

MAX_KV_SPLITS, MAX_SPLIT_ROWS, MAX_PARTIALS = 8, 16, 256
"""Split-KV: batches of up to MAX_SPLIT_ROWS rows have their KV blocks distributed over up to MAX_KV_SPLITS units of
work, if they have at most MAX_PARTIALS partial results of each head in all."""


def padded_head_dim(head_dim: int) -> int:
    """Values that a head takes in V: head_dim rounded up to a multiple of 16."""
    return (head_dim + 15) & ~15


class PageSizes(NamedTuple):
    """Bytes that a KV head takes in a page: its keys, by head_dim, and its values, by padded head_dim."""

    key_bytes: Callable[[int], int]
    value_bytes: Callable[[int], int]


PAGE_SIZES = {
    "f16": PageSizes(lambda head_dim: 2 * PAGE * head_dim, lambda width: 2 * PAGE * width),
    "f32": PageSizes(lambda head_dim: 4 * PAGE * head_dim, lambda width: 4 * PAGE * width),
    "q8_0": PageSizes(
        lambda head_dim: PAGE * (((head_dim + 15) & ~15) + 2 * ((head_dim + 31) >> 5)),
        lambda width: PAGE * (width + 2 * ((width + 31) >> 5)),
    ),
}
"""The KV types."""


def layer_page_bytes(kv_heads: int, key_dim: int, value_dim: int, kv_type: str) -> int:
    """Bytes of one layer's part of a page."""
    sizes = PAGE_SIZES[kv_type]
    return kv_heads * (sizes.key_bytes(key_dim) + sizes.value_bytes(padded_head_dim(value_dim)))


def partial_bytes(width: int) -> int:
    """Bytes of a query's partial result: `width` float32, then a vector that holds its largest score and its sum."""
    return 4 * width + 64


def attention_scratch(key_dim: int, value_dim: int) -> int:
    """Bytes of scratch that attention needs; its layout is in `kquants.attention.query_tile`."""
    head_dim = max(key_dim, value_dim)
    query = 4 * padded_head_dim(head_dim) + 4 * PAGE * KV_BLOCK_PAGES + 2 * partial_bytes(padded_head_dim(head_dim))
    return QUERY_TILE * query + PAGE * 4 * padded_head_dim(head_dim)
