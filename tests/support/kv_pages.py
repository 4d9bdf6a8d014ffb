"""KV pages and batches of rows for tests of what reads and writes them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kquants.kv_layout import PAGE, layer_page_bytes, padded_head_dim
from kquants.records import ROPE_NORM, RopeStoreOp
from kquants.simd.dot4 import SIGNED_OFFSET
from support.kernels import Array, batch_record, op_record

F32 = np.float32
TYPES: dict[str, np.dtype[Any]] = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32)}
KINDS = (*TYPES, "q8_0")
EXTRA = 8
"""Floats between rows that no kernel may touch."""


@dataclass
class Shape:
    heads: int
    kv_heads: int
    head_dim: int
    kv: str

    @property
    def layer_bytes(self) -> int:
        return layer_page_bytes(self.kv_heads, self.head_dim, self.kv)


class Pages:
    """KV pages of three layers, of which the second is used; all bytes are `fill` (0xFF: every value is NaN)."""

    def __init__(self, shape: Shape, count: int, fill: int = 0xFF) -> None:
        self.shape = shape
        self.memory = np.full((count, 3 * shape.layer_bytes), fill, np.uint8)
        self.addresses = np.array([page.ctypes.data for page in self.memory], np.int64)

    @property
    def keys(self) -> Array:
        """Keys of the second layer, [page, kv head, head_dim, PAGE]: a view."""
        s = self.shape
        return self._layer()[:, : s.kv_heads * s.head_dim * PAGE].reshape(-1, s.kv_heads, s.head_dim, PAGE)

    @property
    def values(self) -> Array:
        """Values of the second layer, [page, kv head, PAGE, padded head_dim]: a view."""
        s = self.shape
        return self._layer()[:, s.kv_heads * s.head_dim * PAGE :].reshape(
            -1, s.kv_heads, PAGE, padded_head_dim(s.head_dim)
        )

    def _layer(self) -> Array:
        size = self.shape.layer_bytes
        layer: Array = self.memory[:, size : 2 * size].view(TYPES[self.shape.kv])
        return layer

    def put(self, table: list[int], keys: Array, values: Array) -> None:
        """Write keys and values [cells, kv head, head_dim] into the pages of a sequence."""
        for cell, (k, v) in enumerate(zip(keys, values, strict=True)):
            self.write(table[cell // PAGE], cell % PAGE, k, v)

    def write(self, page: int, at: int, k: Array, v: Array) -> None:
        """Write a key and a value [kv head, head_dim] into a cell."""
        if self.shape.kv == "q8_0":
            self._write_q8(page, at, k, v)
        else:
            self.keys[page, :, :, at] = k
            self.values[page, :, at] = 0
            self.values[page, :, at, : self.shape.head_dim] = v

    def _write_q8(self, page: int, at: int, k: Array, v: Array) -> None:
        s = self.shape
        width, blocks = padded_head_dim(s.head_dim), -(-s.head_dim // 32)
        heads = self.memory[page, s.layer_bytes : 2 * s.layer_bytes].reshape(2, s.kv_heads, -1)
        ints, scales = heads[..., : width * PAGE], heads[..., width * PAGE :].view(np.float16)
        wanted = [quantized(x, width) for x in (k, v)]
        ints[0].reshape(-1, width // 4, PAGE, 4)[:, :, at] = wanted[0][0].view(np.uint8).reshape(
            -1, width // 4, 4
        ) + np.uint8(SIGNED_OFFSET)
        ints[1].reshape(-1, PAGE, width)[:, at] = wanted[1][0].view(np.uint8)
        scales[0].reshape(-1, blocks, PAGE)[:, :, at] = wanted[0][1]
        scales[1].reshape(-1, PAGE, blocks)[:, at] = wanted[1][1]


def quantized(x: Array, width: int) -> tuple[Array, Array]:
    """int8 [..., width] and a float32 scale for every 32 (as ggml's Q8_0 has it, but without its rounding to half)."""
    blocks = np.zeros((*x.shape[:-1], -(-width // 32), 32), F32)
    blocks.reshape(*x.shape[:-1], -1)[..., : x.shape[-1]] = x
    largest = np.abs(blocks).max(-1, keepdims=True)
    inverse = F32(127) / np.where(largest > 0, largest, F32(np.inf))
    ints = np.rint(blocks * inverse).astype(np.int8)
    return ints.reshape(*x.shape[:-1], -1)[..., :width], largest[..., 0] / F32(127)


class Rows:
    """A batch of rows of several sequences: for each row the page table and the cells that it sees.

    `outputs` are those whose logits are wanted. Rows of one sequence have one list for a table: kernels tell sequences
    by the address of the table.
    """

    def __init__(
        self,
        pages: Pages,
        tables: list[list[int]],
        visible: list[int],
        cos_sin: Array | None = None,
        outputs: list[int] | None = None,
    ) -> None:
        self.kept = {id(table): np.array(table, np.int32) for table in tables}
        self.parts: dict[str, Array] = {
            "page_tables": np.array([self.kept[id(table)].ctypes.data for table in tables], np.int64),
            "visible": np.array(visible, np.int32),
            "cos_sin": np.zeros(1, F32) if cos_sin is None else cos_sin,
            "pages": pages.addresses,
            "output_rows": np.array([*(outputs or []), 1 << 30], np.int32),
        }
        self.record = batch_record(len(visible), len(outputs or []), **self.parts)


def store_record(
    shape: Shape, q: Array, k: Array, v: Array, rope_dim: int, rope_type: int = ROPE_NORM
) -> NDArray[np.int64]:
    """The op that writes the cells of rows."""
    given = RopeStoreOp(
        q=q,
        q_bytes=q[0].nbytes,
        k=k,
        v=v,
        kv_bytes=k[0].nbytes,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        rope_dim=rope_dim,
        rope_type=rope_type,
        page_offset=shape.layer_bytes,
    )
    return op_record(f"rope_store_{shape.kv}", given, per_row=shape.kv_heads)
