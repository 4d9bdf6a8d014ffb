"""Attention over KV pages (their layout is in `kquants.pages`).

The softmax of one page is a partial result (its largest score, the sum of its weights, its weighted values); a
query merges its pages in order, and its result depends on itself and the cells it sees alone: the same bits,
whatever the batch. Up to TOKENS queries go through the pages together, the heads that share a KV head and the
same heads of the next rows, so that each key and value is read once for all of them.

Scratch, for each of the TOKENS queries:

    q [head_dim] | weights [PAGE] | merged values [width] | values of one page [16] | top, total, old, new
"""

import math
from typing import Any

import numba as nb

from kquants.decorators import Vector, inline, kernel
from kquants.functions import exp
from kquants.interpreter import argument, row_count
from kquants.layout import PAGE
from kquants.pages import head_width, page_address
from kquants.simd import (
    add_f32,
    first_f32,
    fma_f32,
    keep_f32,
    largest_f32,
    load_f16x16,
    load_f32,
    load_f32x16,
    load_i32,
    load_i64,
    max_f32,
    mul_f32,
    splat_f32,
    store_f32,
    store_f32x16,
    store_f32x16_part,
    sub_f32,
    sum_f32,
)
from kquants.tiles import TOKENS, add_product, copy, prefetch, store_sums, zero_sums

_MINUS_INFINITY = nb.float32(-math.inf)


@inline
def _weigh(p: int, cells: int, scale: float, state: int) -> None:
    """Turn the scores of a page at p into weights exp(score · scale - top), 0 behind the last of `cells`.

    `state` holds the query's largest score so far and the sum of its weights, and gets the factors that bring
    what was merged before, and this page, to the new largest score.
    """
    largest, total = splat_f32(_MINUS_INFINITY), splat_f32(nb.float32(0))
    for j in range(0, cells, 16):
        s = keep_f32(mul_f32(load_f32x16(p + 4 * j), splat_f32(scale)), cells - j, _MINUS_INFINITY)
        store_f32x16(p + 4 * j, s)
        largest = max_f32(largest, s)
    top = largest_f32(largest)
    for j in range(0, cells, 16):
        e = exp(sub_f32(load_f32x16(p + 4 * j), splat_f32(top)))
        store_f32x16(p + 4 * j, e)
        total = add_f32(total, e)
    before = load_f32(state)
    both = max(before, top)
    old, new = first_f32(exp(splat_f32(before - both))), first_f32(exp(splat_f32(top - both)))
    store_f32(state, both)
    store_f32(state + 4, load_f32(state + 4) * old + sum_f32(total) * new)
    store_f32(state + 8, old)
    store_f32(state + 12, new)


@inline
def _merge(merged: int, part: int, state: int) -> None:
    """Add 16 values of a page to those of the pages before it."""
    kept = mul_f32(load_f32x16(merged), splat_f32(load_f32(state + 8)))
    store_f32x16(merged, add_f32(kept, mul_f32(load_f32x16(part), splat_f32(load_f32(state + 12)))))


@inline
def _begin(op: int, t: int, h: int, heads: int, queries: int, q: int, merged: int, state: int) -> None:
    """Bring the queries together, and nothing merged yet."""
    head_dim = argument(op, 6)
    width = head_width(head_dim)
    for i in range(queries):
        source = argument(op, 0) + (t + i // heads) * argument(op, 1) + 4 * (h + i % heads) * head_dim
        copy(q + 4 * head_dim * i, source, 4 * head_dim)
        store_f32(state + 16 * i, _MINUS_INFINITY)
        store_f32(state + 16 * i + 4, nb.float32(0))
        for d in range(0, width, 16):
            store_f32x16(merged + 4 * (i * width + d), splat_f32(nb.float32(0)))


@inline
def _finish(op: int, t: int, h: int, heads: int, queries: int, merged: int, state: int) -> None:
    """Divide what was merged by the sum of the weights, and write it out."""
    head_dim = argument(op, 6)
    width = head_width(head_dim)
    for i in range(queries):
        out = argument(op, 2) + (t + i // heads) * argument(op, 3) + 4 * (h + i % heads) * head_dim
        share = splat_f32(nb.float32(1) / load_f32(state + 16 * i + 4))
        for d in range(0, head_dim, 16):
            result = mul_f32(load_f32x16(merged + 4 * (i * width + d)), share)
            store_f32x16_part(out + 4 * d, result, head_dim - d)


def _define(name: str, element: int, lanes: Any) -> None:
    @inline
    def scores(q: int, keys: int, cells: int, head_dim: int, p: int, ahead: int) -> None:
        """Write the products of every query with the first `cells` keys of a page to p."""
        for j in range(0, cells, 16):
            s = zero_sums()
            for d in range(head_dim):
                prefetch(ahead + (j * head_dim + d * 16) * element)
                s = add_product(s, lanes(keys + (d * PAGE + j) * element), q + 4 * d, 4 * head_dim)
            store_sums(p + 4 * j, s, 4 * PAGE)

    @inline
    def gather_all(p: int, values: int, cells: int, width: int, part: int, ahead: int) -> None:
        """16 values of the page's cells for every query, weighted by p and added in order of the cells."""
        v = zero_sums()
        for c in range(cells):
            prefetch(ahead + c * 16 * element)
            v = add_product(v, lanes(values + c * width * element), p + 4 * c, 4 * PAGE)
        store_sums(part, v, 64)

    @inline
    def gather(p: int, values: int, cells: int, width: int) -> Vector:
        """The same for one query."""
        v = splat_f32(nb.float32(0))
        for c in range(cells):
            v = fma_f32(lanes(values + c * width * element), splat_f32(load_f32(p + 4 * c)), v)
        return v

    @inline
    def attend(op: int, batch: int, t: int, rows: int, g: int, h: int, heads: int, scratch: int) -> None:
        """Heads h, h + 1, … (`heads` of them, of KV head g) of rows t, t + 1, … (`rows`) of one sequence.

        Each row sees one cell more than the row before it. Query i is head h + i mod heads of row t + i / heads.
        """
        kv_heads, head_dim, scale = argument(op, 5), argument(op, 6), load_f32(op + 8 * 13)
        width, queries = head_width(head_dim), rows * heads
        q, p = scratch, scratch + TOKENS * 4 * head_dim
        merged = p + TOKENS * 4 * PAGE
        part = merged + TOKENS * 4 * width
        state = part + TOKENS * 64
        _begin(op, t, h, heads, queries, q, merged, state)
        visible = load_i32(load_i64(batch + 32) + 4 * t)
        for start in range(0, visible + rows - 1, PAGE):
            cells = min(PAGE, visible + rows - 1 - start)
            page = page_address(batch, t, start // PAGE) + argument(op, 7)
            values = page + (kv_heads * head_dim * PAGE + g * PAGE * width) * element
            # Pages lie anywhere in memory: the CPU cannot guess the next one, so it is asked for ahead of time.
            next_page = page
            if start + PAGE < visible + rows - 1:
                next_page = page_address(batch, t, start // PAGE + 1) + argument(op, 7)
            ahead = next_page + g * head_dim * PAGE * element
            scores(q, page + g * head_dim * PAGE * element, cells, head_dim, p, ahead)
            ahead = next_page + (kv_heads * head_dim * PAGE + g * PAGE * width) * element
            for i in range(queries):
                own = min(PAGE, visible + i // heads - start)
                if own > 0:
                    _weigh(p + 4 * PAGE * i, own, scale, state + 16 * i)
            alike = min(PAGE, visible - start) == cells
            for d in range(0, width, 16):
                if alike:
                    gather_all(p, values + d * element, cells, width, part, ahead + d * PAGE * element)
                for i in range(queries):
                    own = min(PAGE, visible + i // heads - start)
                    if own > 0:
                        if not alike:
                            v = gather(p + 4 * PAGE * i, values + d * element, own, width)
                            store_f32x16(part + 64 * i, v)
                        _merge(merged + 4 * (i * width + d), part + 64 * i, state + 16 * i)
        _finish(op, t, h, heads, queries, merged, state)

    @kernel(f"attention_{name}")
    def attention(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Attention; one unit is the query heads of one KV head in one row, or no work where a row before took it.

        Arguments: q, bytes per row, out, bytes per row, heads, kv heads, head_dim, the layer's offset in a page,
        scale as float32 bits.
        """
        kv_heads = argument(op, 5)
        group = argument(op, 4) // kv_heads
        together = max(1, TOKENS // group)
        for unit in range(first, last):
            t, g = unit // kv_heads, unit % kv_heads
            if t % together == 0:
                stop = min(t + together, row_count(op, batch))
                while t < stop:
                    rows = _consecutive(batch, t, stop)
                    for h in range(g * group, (g + 1) * group, TOKENS):
                        attend(op, batch, t, rows, g, h, min(TOKENS, (g + 1) * group - h), scratch)
                    t += rows


@inline
def _consecutive(batch: int, t: int, stop: int) -> int:
    """How many rows from t on, before `stop`, are consecutive tokens of one sequence."""
    tables, visible = load_i64(batch + 24), load_i64(batch + 32)
    rows = 1
    while (
        t + rows < stop
        and load_i64(tables + 8 * (t + rows)) == load_i64(tables + 8 * t)
        and load_i32(visible + 4 * (t + rows)) == load_i32(visible + 4 * t) + rows
    ):
        rows += 1
    return rows


_define("f16", 2, load_f16x16)
_define("f32", 4, load_f32x16)
