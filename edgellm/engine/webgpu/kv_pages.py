"""KV pages on a GPU, in buffers for each layer; `shaders/kv_*.wgsl` describe their layouts."""

import sys
from typing import NamedTuple

from edgellm.arch.blocks import AttentionSettings
from edgellm.engine.kv_pages import most_pages
from edgellm.engine.limits import BatchLimits
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.offloaded import OffloadedBlocks
from edgellm.errors import NoMemoryError
from edgellm.fmt import counted, size
from kquants.kv_layout import PAGE

MIN_PAGES = 8
"""Pages that there is room for at first. Then the room doubles, up to full buffers or a full context."""


def page_bytes(settings: AttentionSettings, kv_type: str) -> int:
    """Bytes of a page of a layer."""
    values = PAGE * (settings.k_width + settings.v_width)
    if kv_type == "q8_0":
        blocks = -(-settings.key_dim // 32) + -(-settings.value_dim // 32)
        return values + 4 * PAGE * settings.kv_heads * blocks
    return values * {"f16": 2, "f32": 4}[kv_type]


class KVBuffer(NamedTuple):
    """A buffer with pages `first` … `first + pages - 1` of a layer."""

    buffer: Buffer
    first: int
    pages: int


class GroupPages:
    """The pages of a KV group: those of its layers `page_bytes`, by block, in `buffers` that fit a binding.

    There is room for `pages` pages; a full context takes `context_pages`.
    """

    def __init__(self, gpu: GPUContext, page_bytes: dict[int, int], context_pages: int) -> None:
        self._gpu, self.page_bytes, self._context_pages = gpu, page_bytes, context_pages
        self._buffer_pages = {block: max(1, gpu.binding // nbytes) for block, nbytes in page_bytes.items()}
        self.buffers: dict[int, list[KVBuffer]] = {block: [] for block in page_bytes}
        self.pages = 0
        self.grow(min(MIN_PAGES, context_pages))

    @property
    def bytes_per_page(self) -> int:
        """Bytes of a page of all layers."""
        return sum(self.page_bytes.values())

    def room_for(self, pages: int, allowed: int) -> int:
        """The pages to have room for if `pages` are needed: up to twice as many as now, but not above `allowed`.

        The room for one full sequence is not more than the plan counts.
        """
        more = min(2 * self.pages, self.pages + min(self._buffer_pages.values(), default=1), allowed)
        return max(pages, min(more, self._context_pages) if self.pages < self._context_pages else more)

    def grow(self, room: int) -> None:
        """Have room for `room` pages in all layers."""
        for block, buffers in self.buffers.items():
            most = self._buffer_pages[block]
            for i, first in enumerate(range(0, room, most)):
                pages = min(most, room - first)
                if i == len(buffers):
                    buffers.append(self._buffer(block, first, pages))
                elif pages > buffers[i].pages:
                    old, buffers[i] = buffers[i], self._buffer(block, first, pages, buffers[i])
                    self._gpu.free(old.buffer)
        self.pages = room

    def _buffer(self, block: int, first: int, pages: int, old: KVBuffer | None = None) -> KVBuffer:
        """A new buffer, with the pages of an old one."""
        nbytes = self.page_bytes[block]
        buffer = self._gpu.buffer(pages * nbytes, "the KV cache of a layer")
        if old:
            self._gpu.submit([], copies=[(old.buffer, 0, buffer, 0, old.pages * nbytes)])
        return KVBuffer(buffer, first, pages)

    def copy_page(self, source: int, target: int, staging: Buffer) -> None:
        """Copy a page in all layers, by way of a buffer, as WebGPU cannot copy within one."""
        for block, n in self.page_bytes.items():
            (source_buffer, at), (target_buffer, to) = (self._place(block, page) for page in (source, target))
            self._gpu.submit([], copies=[(source_buffer, at, staging, 0, n), (staging, 0, target_buffer, to, n)])

    def _place(self, block: int, page: int) -> tuple[Buffer, int]:
        """The buffer that a page of a layer is in, and its byte offset."""
        buffer, first, _ = self.buffers[block][page // self._buffer_pages[block]]
        return buffer, (page - first) * self.page_bytes[block]


class GPUKVPages:
    """The KV pages of the attention layers on a GPU, by KV group; the room for pages grows on demand.

    All pages together take at most `limit` bytes.
    """

    def __init__(self, gpu: GPUContext, blocks: OffloadedBlocks, limits: BatchLimits, limit: int | None = None) -> None:
        self._gpu, self._limit = gpu, limit
        self.groups: list[GroupPages] = []
        for group, window in enumerate(blocks.model.kv_groups):
            own = {
                block: page_bytes(settings, limits.kv_type)
                for block, settings in blocks.attentions.items()
                if blocks.row_kind(settings).kv_group == group
            }
            self.groups.append(GroupPages(gpu, own, most_pages(window, limits.ctx, limits.rows)))
        largest = max((n for group in self.groups for n in group.page_bytes.values()), default=0)
        self._staging = gpu.buffer(largest, "a KV page")

    def buffers(self, block: int) -> list[KVBuffer]:
        """The buffers of an attention block."""
        return next(group.buffers[block] for group in self.groups if block in group.buffers)

    def ensure_pages(self, group: int, pages: int) -> None:
        """Have room for `pages` pages of a group. Raises NoMemoryError beyond the limit."""
        own, allowed = self.groups[group], self._allowed(group)
        if pages > allowed:
            self._refuse(own)
        own.grow(own.room_for(pages, allowed))

    def copy_page(self, group: int, source: int, target: int) -> None:
        """Copy a page in all layers of a group."""
        self.groups[group].copy_page(source, target, self._staging)

    def _allowed(self, group: int) -> int:
        """The most pages of a group that the limit allows, with those that the other groups have."""
        own = self.groups[group]
        if self._limit is None or not own.page_bytes:
            return sys.maxsize
        others = sum(each.pages * each.bytes_per_page for each in self.groups if each is not own)
        return (self._limit - others) // own.bytes_per_page

    def _refuse(self, own: GroupPages) -> None:
        assert self._limit is not None, "without a limit any number of pages is allowed"
        left = f"{size(max(0, self._limit))} that the weights leave of --gpu-memory"
        full = f"the KV cache on {self._gpu.name} may not grow beyond the {left}"
        after = f"which are full after {counted(own.pages * PAGE, 'token')}"
        advice = "allow more, shorten the conversation, or choose a smaller --ctx or fewer --gpu-layers"
        raise NoMemoryError(f"{full}, {after}; {advice}")
