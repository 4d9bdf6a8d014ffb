"""KV pages and batches of rows for tests of what reads and writes them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kquants.kv_layout import PAGE, PAGE_SIZES, attention_scratch, layer_page_bytes, padded_head_dim
from kquants.records import ROPE_NORM, BatchRecord, RopeStoreOp
from kquants.simd.dot4 import SIGNED_OFFSET
from support.kernels import Array, batch_record, op_record

F32 = np.float32
TYPES: dict[str, np.dtype[Any]] = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32)}
KINDS = (*TYPES, "q8_0")
EXTRA = 8
"""Floats between rows that no kernel may touch."""


_UNMAPPED = 64


@dataclass
class Shape:
    heads: int
    kv_heads: int
    key_dim: int
    kv: str
    value_dim: int = 0
    """0: that of keys."""

    def __post_init__(self) -> None:
        self.value_dim = self.value_dim or self.key_dim

    @property
    def layer_bytes(self) -> int:
        return layer_page_bytes(self.kv_heads, self.key_dim, self.value_dim, self.kv)

    @property
    def scratch(self) -> int:
        """Bytes of scratch that its kernels need."""
        return attention_scratch(self.key_dim, self.value_dim)


class Pages:
    """KV pages of three layers, of which the second is used; all bytes are `fill` (0xFF: every value is NaN).

    The pages are those of the second of two KV groups. Page -1 lies where nothing may be read or written.
    """

    def __init__(self, shape: Shape, count: int, fill: int = 0xFF) -> None:
        self.shape = shape
        self.memory = np.full((count, 3 * shape.layer_bytes), fill, np.uint8)
        self.addresses = np.array([_UNMAPPED, *[page.ctypes.data for page in self.memory]], np.int64)
        self.groups = np.array([0, self.addresses[1:].ctypes.data], np.int64)

    @property
    def keys(self) -> Array:
        """Keys of the second layer, [page, kv head, key_dim, PAGE]: a view."""
        s = self.shape
        return self._layer()[:, : s.kv_heads * s.key_dim * PAGE].reshape(-1, s.kv_heads, s.key_dim, PAGE)

    @property
    def values(self) -> Array:
        """Values of the second layer, [page, kv head, PAGE, padded value_dim]: a view."""
        s = self.shape
        return self._layer()[:, s.kv_heads * s.key_dim * PAGE :].reshape(
            -1, s.kv_heads, PAGE, padded_head_dim(s.value_dim)
        )

    def _layer(self) -> Array:
        size = self.shape.layer_bytes
        layer: Array = self.memory[:, size : 2 * size].view(TYPES[self.shape.kv])
        return layer

    def put(self, table: list[int], keys: Array, values: Array, first: int = 0) -> None:
        """Write keys and values [cells, kv head, size of a head] into the pages of a sequence, from cell `first` on."""
        for cell in range(first, len(keys)):
            self.write(table[cell // PAGE], cell % PAGE, keys[cell], values[cell])

    def write(self, page: int, at: int, k: Array, v: Array) -> None:
        """Write a key and a value [kv head, size of a head] into a cell."""
        if self.shape.kv == "q8_0":
            self._write_q8(page, at, k, v)
        else:
            self.keys[page, :, :, at] = k
            self.values[page, :, at] = 0
            self.values[page, :, at, : self.shape.value_dim] = v

    def _write_q8(self, page: int, at: int, k: Array, v: Array) -> None:
        s, memory = self.shape, self.memory[page]
        layer = memory[self.shape.layer_bytes : 2 * self.shape.layer_bytes]
        key_bytes = s.kv_heads * PAGE_SIZES[s.kv].key_bytes(s.key_dim)
        (k_ints, k_scales), (v_ints, v_scales) = (
            quantized(x, padded_head_dim(x.shape[-1])) for x in (k.astype(F32), v.astype(F32))
        )
        ints, scales = _q8_parts(layer[:key_bytes], s.kv_heads, padded_head_dim(s.key_dim))
        fours = k_ints.view(np.uint8).reshape(s.kv_heads, -1, 4) + np.uint8(SIGNED_OFFSET)
        ints.reshape(s.kv_heads, -1, PAGE, 4)[:, :, at] = fours
        scales.reshape(s.kv_heads, -1, PAGE)[:, :, at] = k_scales
        ints, scales = _q8_parts(layer[key_bytes:], s.kv_heads, padded_head_dim(s.value_dim))
        ints.reshape(s.kv_heads, PAGE, -1)[:, at] = v_ints.view(np.uint8)
        scales.reshape(s.kv_heads, PAGE, -1)[:, at] = v_scales


def _q8_parts(memory: Array, kv_heads: int, width: int) -> tuple[Array, Array]:
    """The bytes and the scales of each KV head: views."""
    heads = memory.reshape(kv_heads, -1)
    return heads[:, : width * PAGE], heads[:, width * PAGE :].view(np.float16)


def quantized(x: Array, width: int) -> tuple[Array, Array]:
    """int8 [..., width] and a float32 scale for every 32 (as ggml's Q8_0 has it, but without its rounding to half)."""
    blocks = np.zeros((*x.shape[:-1], -(-width // 32), 32), F32)
    blocks.reshape(*x.shape[:-1], -1)[..., : x.shape[-1]] = x
    largest = np.abs(blocks).max(-1, keepdims=True)
    inverse = F32(127) / np.where(largest > 0, largest, F32(np.inf))
    ints = np.rint(blocks * inverse).astype(np.int8)
    return ints.reshape(*x.shape[:-1], -1)[..., :width], largest[..., 0] / F32(127)


class Rows:
    """A batch of rows of several sequences: for each row the page table, and the end of the cells that it sees.

    A row sees cells from its `first` on, or all. `cells` are those that rows write, or the last that each sees, and
    `positions` those of rows in their sequences, or their cells. `outputs` are rows whose logits are wanted.
    Consecutive rows are a segment where one list is the table of both.
    """

    def __init__(
        self,
        pages: Pages,
        tables: list[list[int]],
        visible: list[int],
        first: list[int] | None = None,
        cells: list[int] | None = None,
        positions: list[int] | None = None,
        position_tables: list[Array] | None = None,
        outputs: list[int] | None = None,
    ) -> None:
        n, given = len(visible), [] if position_tables is None else position_tables
        self.kept = ({id(table): np.array(table, np.int32) for table in tables}, given)
        begins = [t for t in range(n) if t == 0 or tables[t] is not tables[t - 1]]
        own = [end - 1 for end in visible] if cells is None else cells
        row_tables = [self.kept[0][id(table)].ctypes.data for table in tables]
        self.parts: dict[str, Array] = {
            "segment_rows": np.array([*begins, n], np.int32),
            "page_tables": np.array([*[0] * n, *row_tables], np.int64),
            "visible": np.array(visible, np.int32),
            "first": np.array([0] * n if first is None else first, np.int32),
            "cells": np.array(own, np.int32),
            "positions": np.array(own if positions is None else positions, np.int32),
            "position_tables": np.array([0, *[table.ctypes.data for table in given]], np.int64),
            "pages": pages.groups,
            "output_rows": np.array([*(outputs or []), 1 << 30], np.int32),
        }
        self.record = batch_record(n, len(outputs or []), **self.parts)
        self.record[BatchRecord._fields.index("segments")] = len(begins)


def store_record(
    shape: Shape,
    q: Array,
    k: Array | None,
    v: Array | None,
    rope_dim: int,
    rope_type: int = ROPE_NORM,
    q_factor_table: int = -1,
) -> NDArray[np.int64]:
    """The op that writes the cells of rows; its RoPE table is the first of the batch's position tables."""
    given = RopeStoreOp(
        q=q,
        q_bytes=q[0].nbytes,
        k=0 if k is None else k,
        k_bytes=0 if k is None else k[0].nbytes,
        v=0 if v is None else v,
        v_bytes=0 if v is None else v[0].nbytes,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        key_dim=shape.key_dim,
        value_dim=shape.value_dim,
        rope_dim=rope_dim,
        rope_type=rope_type,
        rope_table=1,
        q_factor_table=q_factor_table,
        kv_group=1,
        page_offset=shape.layer_bytes,
    )
    return op_record(f"rope_store_{shape.kv}", given, per_row=shape.kv_heads)
