"""KV pages on a GPU, in buffers for each layer; `shaders/kv_*.wgsl` describe their layouts."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from edgellm.arch.description import Description
from edgellm.engine.limits import BatchLimits
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.errors import NoMemoryError
from edgellm.fmt import counted, size
from kquants.kv_layout import PAGE

MIN_PAGES = 8
"""Pages that there is room for at first. Then the room doubles, up to full buffers or a full context."""


def page_bytes(model: Description, kv_type: str) -> int:
    """Bytes of a page of one layer."""
    values = 2 * PAGE * model.kv_heads * model.head_dim
    if kv_type == "q8_0":
        return values + 8 * PAGE * model.kv_heads * -(-model.head_dim // 32)
    return values * {"f16": 2, "f32": 4}[kv_type]


class KVBuffer(NamedTuple):
    """A buffer with pages `first` … `first + pages - 1` of a layer."""

    buffer: Buffer
    first: int
    pages: int


class GPUKVPages:
    """The KV pages of the mixers `blocks`, in buffers that fit a binding; the room for pages grows on demand.

    All pages together take at most `limit` bytes.
    """

    def __init__(
        self, gpu: GPUContext, model: Description, limits: BatchLimits, blocks: Sequence[int], limit: int | None = None
    ) -> None:
        self._gpu, self._page_bytes = gpu, page_bytes(model, limits.kv_type)
        self._buffer_pages = max(1, gpu.binding // self._page_bytes)
        self._ctx_pages = -(-limits.ctx // PAGE)
        self._limit, self._layers = limit, len(blocks)
        self.pages = min(MIN_PAGES, self._ctx_pages)
        self._staging = gpu.buffer(self._page_bytes, "a KV page")  # WebGPU cannot copy within a buffer
        self.buffers: dict[int, list[KVBuffer]] = {block: [] for block in blocks}
        self._grow(self.pages)

    def ensure_pages(self, pages: int) -> None:
        """Have room for `pages` pages. The room for one full sequence is not more than the plan counts.

        Raises NoMemoryError beyond the limit.
        """
        self._check_limit(pages)
        more = min(2 * self.pages, self.pages + self._buffer_pages, self._allowed)
        self._grow(max(pages, min(more, self._ctx_pages) if self.pages < self._ctx_pages else more))

    @property
    def _allowed(self) -> int:
        """The most pages that the limit allows."""
        all_layers = self._page_bytes * self._layers
        return sys.maxsize if self._limit is None or not all_layers else self._limit // all_layers

    def _check_limit(self, pages: int) -> None:
        if self._limit is not None and pages > self._allowed:
            left = f"{size(max(0, self._limit))} that the weights leave of --gpu-memory"
            full = f"the KV cache on {self._gpu.name} may not grow beyond the {left}"
            after = f"which are full after {counted(self.pages * PAGE, 'token')}"
            advice = "allow more, shorten the conversation, or choose a smaller --ctx or fewer --gpu-layers"
            raise NoMemoryError(f"{full}, {after}; {advice}")

    def copy_page(self, source: int, target: int) -> None:
        """Copy a page in all layers."""
        n, staging = self._page_bytes, self._staging
        for buffers in self.buffers.values():
            (source_buffer, at), (target_buffer, to) = (self._place(buffers, page) for page in (source, target))
            self._gpu.submit([], copies=[(source_buffer, at, staging, 0, n), (staging, 0, target_buffer, to, n)])

    def _place(self, buffers: list[KVBuffer], page: int) -> tuple[Buffer, int]:
        """The buffer that a page is in, and its byte offset."""
        buffer, first, _ = buffers[page // self._buffer_pages]
        return buffer, (page - first) * self._page_bytes

    def _grow(self, room: int) -> None:
        for buffers in self.buffers.values():
            for i, first in enumerate(range(0, room, self._buffer_pages)):
                pages = min(self._buffer_pages, room - first)
                if i == len(buffers):
                    buffers.append(self._buffer(first, pages))
                elif pages > buffers[i].pages:
                    old, buffers[i] = buffers[i], self._buffer(first, pages, buffers[i])
                    self._gpu.free(old.buffer)
        self.pages = room

    def _buffer(self, first: int, pages: int, old: KVBuffer | None = None) -> KVBuffer:
        """A new buffer, with the pages of an old one."""
        buffer = self._gpu.buffer(pages * self._page_bytes, "the KV cache of a layer")
        if old:
            self._gpu.submit([], copies=[(old.buffer, 0, buffer, 0, old.pages * self._page_bytes)])
        return KVBuffer(buffer, first, pages)
