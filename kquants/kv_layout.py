"""Sizes of KV pages and of what attention over them needs. Imports no compiler, so that callers need none.

A page holds the keys and values of PAGE tokens for all layers of a KV group (its layout is in
`kquants.attention.pages`). A KV block is KV_BLOCK_PAGES pages of a sequence: the unit of a partial softmax (see
`kquants.attention.attention`).
"""

from collections.abc import Callable
from typing import NamedTuple

PAGE = 64
"""Tokens of a KV page."""

KV_BLOCK_PAGES = 4
"""Pages of a KV block."""

KV_BLOCK = KV_BLOCK_PAGES * PAGE
"""Cells of a KV block."""

QUERY_TILE = 72
"""The most queries that go through the pages together: a multiple of 4 and 6, the queries of a micro-tile, and enough
that converting a page to float32 takes a small part of the time."""

ATTENTION_UNITS, ATTENTION_UNITS_PER_ROW = 64, 2
"""Units of the kernels `attention_*`, and for each row of the batch: see `kquants.attention.attention`."""

MERGE_UNITS = 64
"""Units of the kernel `attention_merge`."""


WORK_LIST, WORK_TILES, WORK_TILE_BYTES = 64, 1024, 48
"""Where a thread's scratch has the list of an op's work, for how many tiles there is room, and the bytes of a tile."""

WORK_LIST_END = WORK_LIST + 64 + WORK_TILES * WORK_TILE_BYTES
"""Where the list of an op's work ends."""


def max_partials(context: int) -> int:
    """The number of partial results of each head that the buffer holds: those of a row of `context` cells, or 256."""
    return max(256, -(-context // KV_BLOCK))


def padded_head_dim(head_dim: int) -> int:
    """Values that a head takes in V: head_dim rounded up to a multiple of 16."""
    return (head_dim + 15) & ~15


class PageSizes(NamedTuple):
    """Bytes that a KV head takes in a page: its keys, by key_dim, and its values, by padded value_dim."""

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
    """Bytes of scratch that attention needs: a work list and a tile of queries, whose layouts are in
    `kquants.attention.work_list` and `query_tile`."""
    key_width, value_width = padded_head_dim(key_dim), padded_head_dim(value_dim)
    query = 16 + 4 * key_width + 4 * KV_BLOCK + 2 * partial_bytes(value_width)
    return WORK_LIST_END + QUERY_TILE * query + PAGE * 4 * max(key_width, value_width)
