"""KV pages: where a cell lies, and what is written there: keys after RoPE, and values.

A page holds the keys and values of PAGE tokens for all layers; a layer's part of it starts at its offset:

    K  [kv_head][head_dim][PAGE]              so that lanes are keys, and every sum over d has one order
    V  [kv_head][PAGE][padded head_dim]       padded with zeros to a multiple of 16
"""

from typing import Any

from kquants.decorators import inline, kernel
from kquants.interpreter import argument
from kquants.layout import PAGE, PAGE_SIZES, padded
from kquants.rope import rotate
from kquants.simd import (
    load_f32,
    load_f32x16,
    load_f32x16_part,
    load_i32,
    load_i64,
    prefetch,
    store_f16,
    store_f16_apart,
    store_f16x16,
    store_f32,
    store_f32_apart,
    store_f32x16,
)

head_width = inline(padded)


@inline
def own_cell(batch: int, t: int) -> int:
    """The cell of its sequence that row t writes: the last that it sees."""
    return int(load_i32(load_i64(batch + 32) + 4 * t)) - 1


@inline
def page_address(batch: int, t: int, index: int) -> int:
    """Address of the index-th page of row t's sequence."""
    table = load_i64(load_i64(batch + 24) + 8 * t)
    return load_i64(load_i64(batch + 56) + 8 * load_i32(table + 4 * index))


def _float_writers(element: int, store: Any, store_16: Any, store_apart: Any) -> tuple[Any, Any, int]:
    @inline
    def write_key(key: int, cell: int, head_dim: int, to: int, scratch: int) -> None:
        whole, stride = head_dim - head_dim % 16, PAGE * element
        for d in range(0, whole, 16):
            store_apart(to + d * stride + cell * element, load_f32x16(key + 4 * d), stride)
        for d in range(whole, head_dim):
            store(to + d * stride + cell * element, load_f32(key + 4 * d))

    @inline
    def write_value(value: int, cell: int, head_dim: int, to: int, scratch: int) -> None:
        width = head_width(head_dim)
        for d in range(0, width, 16):
            store_16(to + (cell * width + d) * element, load_f32x16_part(value + 4 * d, head_dim - d))

    return write_key, write_value, element


_WRITERS = {
    "f16": _float_writers(2, store_f16, store_f16x16, store_f16_apart),
    "f32": _float_writers(4, store_f32, store_f32x16, store_f32_apart),
}
"""By type of page: `write_key(key, cell, head_dim, to, scratch)` and `write_value` of the KV head at `to`, and the
bytes that neighbours in a row of K are apart."""


def _define_store(name: str) -> None:
    write_key, write_value, element = _WRITERS[name]
    key_bytes, value_bytes = inline(PAGE_SIZES[name].key_bytes), inline(PAGE_SIZES[name].value_bytes)

    @inline
    def keys_at(op: int, batch: int, t: int, g: int, cell: int) -> int:
        return page_address(batch, t, cell // PAGE) + argument(op, 10) + g * key_bytes(argument(op, 7))

    @inline
    def values_at(op: int, batch: int, t: int, g: int, cell: int) -> int:
        before = g * value_bytes(head_width(argument(op, 7)))
        return keys_at(op, batch, t, argument(op, 6), cell) + before

    @inline
    def fetch_keys(op: int, batch: int, t: int, g: int) -> None:
        """Ask for the cache lines of a key: there is one for each element."""
        cell, keys = own_cell(batch, t), keys_at(op, batch, t, g, own_cell(batch, t))
        for line in range(0, key_bytes(argument(op, 7)), element * PAGE):
            prefetch(keys + line + element * (cell % PAGE))

    @kernel(f"rope_store_{name}")
    def rope_store(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Rotate q and k in place and write k and v into the row's own cell; a unit is a KV head of a row.

        Arguments: q, bytes per row, k, v, bytes per row of both, heads, kv heads, head_dim, rope_dim, neox,
        the layer's offset in a page.
        """
        kv_heads, head_dim, rope_dim, neox = argument(op, 6), argument(op, 7), argument(op, 8), argument(op, 9)
        group = argument(op, 5) // kv_heads
        for unit in range(first, last):
            fetch_keys(op, batch, unit // kv_heads, unit % kv_heads)
        for unit in range(first, last):
            t, g = unit // kv_heads, unit % kv_heads
            cell, rotations = own_cell(batch, t), load_i64(batch + 48) + t * rope_dim * 4
            for h in range(g * group, (g + 1) * group):
                rotate(argument(op, 0) + t * argument(op, 1) + 4 * h * head_dim, rotations, rope_dim, neox)
            at = t * argument(op, 4) + 4 * g * head_dim
            key, value = argument(op, 2) + at, argument(op, 3) + at
            rotate(key, rotations, rope_dim, neox)
            write_key(key, cell % PAGE, head_dim, keys_at(op, batch, t, g, cell), scratch)
            write_value(value, cell % PAGE, head_dim, values_at(op, batch, t, g, cell), scratch)


for _name in _WRITERS:
    _define_store(_name)
