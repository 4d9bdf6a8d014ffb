"""KV pages: where the key and the value of a cell lie, and the kernels that write them, after RoPE of q and k.

A cell is one token's place in a sequence. A page holds the keys and values of PAGE cells for all layers of a KV group;
each layer's part starts at the layer's `page_offset`:

    K  [kv_head][key_dim][PAGE]               so that lanes are keys, and every sum over d has one order
    V  [kv_head][PAGE][padded value_dim]      padded with zeros to a multiple of 16

of float16 or float32. In pages of type q8_0 a value takes a byte, and every 32 values of a head in a cell share a
float16 scale: 8.5 bits a value, as in ggml's Q8_0, but with scales apart from the bytes, so that values of 16 keys, or
of a whole cell, form a vector:

    K  [kv_head] of ( int8 [padded key_dim / 4][PAGE][4], float16 [key_dim / 32][PAGE] )
    V  [kv_head] of ( int8 [PAGE][padded value_dim], float16 [PAGE][value_dim / 32] )

where a quotient is rounded up, and SIGNED_OFFSET of `kquants.simd.dot4` is added to the int8 of K. Scores are exact
integer dot products with queries that are quantized likewise, scaled and summed block by block.

Latent attention has no V: the values of a cell are the first of its key (see `kquants.attention.latent_pages`).
"""

from typing import Any

import numba as nb

from kquants.activations.quantized import quantize_row
from kquants.attention.rope import rotate
from kquants.compiler.decorators import inline, kernel
from kquants.kv_layout import PAGE, PAGE_SIZES, padded_head_dim
from kquants.layout import X_BLOCK_BYTES
from kquants.records import RopeStoreOp
from kquants.simd import (
    copy,
    load_f32,
    load_f32x16,
    load_f32x16_part,
    load_i32,
    load_i64,
    mul_f32,
    prefetch_lines,
    splat_f32,
    store_f16,
    store_f16_apart,
    store_f16x16,
    store_f32,
    store_f32_apart,
    store_f32x16,
    store_f32x16_part,
    store_i32,
)
from kquants.simd.dot4 import SIGNED_OFFSET
from kquants.threadpool.interpreter import arguments_of, batch_of, batch_row

head_width = inline(padded_head_dim)
_store_of = arguments_of(RopeStoreOp)


@inline
def page_address(batch: int, group: int, t: int, index: int) -> int:
    """Address of the index-th page of a KV group of row t's sequence."""
    table = load_i64(batch_of(batch).page_tables + 8 * (group * batch_of(batch).rows + t))
    pages = load_i64(batch_of(batch).pages + 8 * group)
    return load_i64(pages + 8 * load_i32(table + 4 * index))


@inline
def position_entry(batch: int, number: int, t: int, entry_bytes: int) -> int:
    """Address of the entry of a position table for row t of the batch, whose entries have `entry_bytes` bytes."""
    table = load_i64(batch_of(batch).position_tables + 8 * number)
    return table + load_i32(batch_of(batch).positions + 4 * t) * entry_bytes


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


def _q8_writers() -> tuple[Any, Any, int]:
    @inline
    def quantize_head(head: int, head_dim: int, scratch: int) -> int:
        """Address of the head as a quantized row."""
        n = (head_dim + 31) & ~31
        for d in range(0, n, 16):
            store_f32x16(scratch + 4 * d, load_f32x16_part(head + 4 * d, head_dim - d))
        quantize_row(scratch, n, scratch + 4 * n)
        return scratch + 4 * n

    @inline
    def write_scales(row: int, head_dim: int, to: int, stride: int) -> None:
        n = (head_dim + 31) & ~31
        for b in range(n // 32):
            store_f16(to + b * stride, load_f32(row + n + X_BLOCK_BYTES * b))

    @inline
    def write_key(key: int, cell: int, head_dim: int, to: int, scratch: int) -> None:
        row, width = quantize_head(key, head_dim, scratch), head_width(head_dim)
        for d in range(0, width, 4):
            store_i32(to + d * PAGE + 4 * cell, load_i32(row + d) ^ _OFFSETS)
        write_scales(row, head_dim, to + width * PAGE + 2 * cell, 2 * PAGE)

    @inline
    def write_value(value: int, cell: int, head_dim: int, to: int, scratch: int) -> None:
        row, width = quantize_head(value, head_dim, scratch), head_width(head_dim)
        copy(to + cell * width, row, width)
        blocks = (width + 31) >> 5
        write_scales(row, head_dim, to + width * PAGE + 2 * blocks * cell, 2)

    return write_key, write_value, 4


_OFFSETS = nb.int32(SIGNED_OFFSET * 0x01010101 - 2**32 if SIGNED_OFFSET else 0)
"""SIGNED_OFFSET in each of four bytes; the exclusive or adds it without carries."""

_WRITERS = {
    "f16": _float_writers(2, store_f16, store_f16x16, store_f16_apart),
    "f32": _float_writers(4, store_f32, store_f32x16, store_f32_apart),
    "q8_0": _q8_writers(),
}
"""By KV type: `write_key(key, cell, head_dim, to, scratch)` and `write_value` for the KV head at `to`, and the bytes
from a key's element to that of the next key in a row of K."""


@inline
def _rotate_head(op: int, batch: int, t: int, head: int) -> None:
    given = _store_of(op)
    if given.rope_dim > 0:
        row = batch_row(op, batch, t)
        cos_sin = position_entry(batch, given.rope_table, row, 4 * given.rope_dim)
        rotate(head + 4 * given.rope_first, cos_sin, given.rope_dim, given.rope_type)


@inline
def _scale_head(op: int, batch: int, t: int, head: int) -> None:
    """Multiply a head of q by the factor of the position of the op's row t."""
    given = _store_of(op)
    factor = splat_f32(load_f32(position_entry(batch, given.q_factor_table, batch_row(op, batch, t), 4)))
    for d in range(0, given.key_dim, 16):
        x = load_f32x16_part(head + 4 * d, given.key_dim - d)
        store_f32x16_part(head + 4 * d, mul_f32(x, factor), given.key_dim - d)


@inline
def _rotate_queries(op: int, batch: int, t: int, g: int) -> None:
    """Rotate the heads of q that share KV head g."""
    given = _store_of(op)
    group = given.heads // given.kv_heads
    for h in range(g * group, (g + 1) * group):
        head = given.q + t * given.q_bytes + 4 * h * given.key_dim
        _rotate_head(op, batch, t, head)
        if given.q_factor_table >= 0:
            _scale_head(op, batch, t, head)


def _define_store(name: str) -> None:
    write_key, write_value, element = _WRITERS[name]
    key_bytes, value_bytes = inline(PAGE_SIZES[name].key_bytes), inline(PAGE_SIZES[name].value_bytes)

    @inline
    def keys_at(op: int, batch: int, t: int, g: int, cell: int) -> int:
        given = _store_of(op)
        page = page_address(batch, given.kv_group, t, cell // PAGE)
        return page + given.page_offset + g * key_bytes(given.key_dim)

    @inline
    def values_at(op: int, batch: int, t: int, g: int, cell: int) -> int:
        given = _store_of(op)
        return keys_at(op, batch, t, given.kv_heads, cell) + g * value_bytes(head_width(given.value_dim))

    @inline
    def own_cell(batch: int, t: int) -> int:
        return int(load_i32(batch_of(batch).cells + 4 * t))

    @inline
    def prefetch_key(op: int, batch: int, t: int, g: int) -> None:
        """Prefetch the cache lines of a key: each of its elements lies in another line."""
        cell, keys = own_cell(batch, t), keys_at(op, batch, t, g, own_cell(batch, t))
        step = element * PAGE
        count = (key_bytes(_store_of(op).key_dim) + step - 1) // step
        prefetch_lines(keys + element * (cell % PAGE), count, step)

    @inline
    def store(op: int, batch: int, t: int, g: int, scratch: int) -> None:
        """Rotate the key of KV head g of row t, and write key and value to the row's cell."""
        given, cell = _store_of(op), own_cell(batch, t)
        key = given.k + t * given.k_bytes + 4 * g * given.key_dim
        _rotate_head(op, batch, t, key)
        write_key(key, cell % PAGE, given.key_dim, keys_at(op, batch, t, g, cell), scratch)
        if given.v != 0:
            value = given.v + t * given.v_bytes + 4 * g * given.value_dim
            write_value(value, cell % PAGE, given.value_dim, values_at(op, batch, t, g, cell), scratch)

    @kernel(f"rope_store_{name}")
    def rope_store(op: int, batch: int, first: int, last: int, scratch: int) -> None:
        """Rotate q and k, and write k and v to their pages. Arguments: RopeStoreOp; a unit is a KV head of a row."""
        given = _store_of(op)
        kv_heads, writes = given.kv_heads, given.k != 0
        if writes:
            for unit in range(first, last):
                prefetch_key(op, batch, unit // kv_heads, unit % kv_heads)
        for unit in range(first, last):
            t, g = unit // kv_heads, unit % kv_heads
            _rotate_queries(op, batch, t, g)
            if writes:
                store(op, batch, t, g, scratch)


for _name in _WRITERS:
    _define_store(_name)
