"""KV pages on a GPU: for each layer buffers, in which page after page lies; layouts are in `shaders/cells_*.wgsl`."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from edgellm.arch.description import Description
from edgellm.engine.offload import BatchLimits
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.errors import NoMemoryError
from edgellm.fmt import counted, size
from kquants.kv_layout import PAGE

LEAST_PAGES = 8
"""Room that is made at first; then it doubles until pieces are full, up to that of a full context."""


def page_bytes(model: Description, kv_type: str) -> int:
    """Bytes of one layer's part of a page."""
    values = 2 * PAGE * model.kv_heads * model.head_dim
    if kv_type == "q8_0":
        return values + 8 * PAGE * model.kv_heads * -(-model.head_dim // 32)
    return values * {"f16": 2, "f32": 4}[kv_type]


class KVBuffer(NamedTuple):
    """Pages `first` … `first + pages - 1` of a layer."""

    buffer: Buffer
    first: int
    pages: int


class GPUKVPages:
    """The pages of layers, known by the numbers of their blocks; room for them grows as it is asked for.

    Those of a layer are in as many pieces as bindings ask for. All together they take `limit` bytes at most.
    """

    def __init__(
        self, gpu: GPUContext, model: Description, limits: BatchLimits, blocks: Sequence[int], limit: int | None = None
    ) -> None:
        self._gpu, self._page_bytes = gpu, page_bytes(model, limits.kv_type)
        self._most = max(1, gpu.binding // self._page_bytes)
        self._full = -(-limits.ctx // PAGE)
        self._limit, self._layers = limit, len(blocks)
        self.pages = min(LEAST_PAGES, self._full)
        self._between = gpu.buffer(self._page_bytes, "a KV page")  # WebGPU copies nothing within a buffer
        self.pieces: dict[int, list[KVBuffer]] = {block: [] for block in blocks}
        self._make(self.pages)

    def ensure_pages(self, pages: int) -> None:
        """Have room for so many pages. One full sequence gets no more than it was planned with.

        Raises NoMemoryError beyond the limit.
        """
        self._check(pages)
        more = min(2 * self.pages, self.pages + self._most, self._allowed)
        self._make(max(pages, min(more, self._full) if self.pages < self._full else more))

    @property
    def _allowed(self) -> int:
        """The most pages that there may be."""
        all_layers = self._page_bytes * self._layers
        return sys.maxsize if self._limit is None or not all_layers else self._limit // all_layers

    def _check(self, pages: int) -> None:
        if self._limit is not None and pages > self._allowed:
            left = f"{size(max(0, self._limit))} that the weights leave of --gpu-memory"
            full = f"the KV cache on {self._gpu.name} may not grow beyond the {left}"
            after = f"which are full after {counted(self.pages * PAGE, 'token')}"
            advice = "allow more, shorten the conversation, or choose a smaller --ctx or fewer --gpu-layers"
            raise NoMemoryError(f"{full}, {after}; {advice}")

    def copy_page(self, source: int, target: int) -> None:
        """Copy a page of all layers."""
        n, between = self._page_bytes, self._between
        for pieces in self.pieces.values():
            (of, at), (to, there) = (self._place(pieces, page) for page in (source, target))
            self._gpu.submit([], copies=[(of, at, between, 0, n), (between, 0, to, there, n)])

    def _place(self, pieces: list[KVBuffer], page: int) -> tuple[Buffer, int]:
        """The buffer that a page is in, and where."""
        buffer, first, _ = pieces[page // self._most]
        return buffer, (page - first) * self._page_bytes

    def _make(self, room: int) -> None:
        for pieces in self.pieces.values():
            for i, first in enumerate(range(0, room, self._most)):
                pages = min(self._most, room - first)
                if i == len(pieces):
                    pieces.append(self._piece(first, pages))
                elif pages > pieces[i].pages:
                    old, pieces[i] = pieces[i], self._piece(first, pages, pieces[i])
                    self._gpu.free(old.buffer)
        self.pages = room

    def _piece(self, first: int, pages: int, old: KVBuffer | None = None) -> KVBuffer:
        """A new piece, with what is in an old one."""
        buffer = self._gpu.buffer(pages * self._page_bytes, "the KV cache of a layer")
        if old:
            self._gpu.submit([], copies=[(old.buffer, 0, buffer, 0, old.pages * self._page_bytes)])
        return KVBuffer(buffer, first, pages)
