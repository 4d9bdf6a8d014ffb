"""KV pages on a GPU: a buffer for each layer, in which page after page lies; layouts are in `shaders/cells_*.wgsl`."""

from collections.abc import Sequence

from edgellm.arch.description import Description
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.gpu import GPU
from edgellm.engine.webgpu.scratch import Sizes
from kquants.layout import PAGE

LEAST_PAGES = 8
"""Room that is made at first; then it doubles, up to that of a full context."""


def page_bytes(model: Description, kv_type: str) -> int:
    """Bytes of one layer's part of a page."""
    values = 2 * PAGE * model.kv_heads * model.head_dim
    if kv_type == "q8_0":
        return values + 8 * PAGE * model.kv_heads * -(-model.head_dim // 32)
    return values * {"f16": 2, "f32": 4}[kv_type]


def most_tokens(model: Description, kv_type: str, binding: int) -> int:
    """How many tokens have their keys and values of a layer in a binding of so many bytes."""
    return binding // page_bytes(model, kv_type) * PAGE


class Cells:
    """The pages of layers, known by the numbers of their blocks; room for them grows as it is asked for."""

    def __init__(self, gpu: GPU, model: Description, sizes: Sizes, blocks: Sequence[int]) -> None:
        self._gpu, self._page_bytes = gpu, page_bytes(model, sizes.kv_type)
        self._full = -(-sizes.ctx // PAGE)
        self.pages = min(LEAST_PAGES, self._full)
        self._between = gpu.buffer(self._page_bytes, "a KV page")  # WebGPU copies nothing within a buffer
        self.buffers: dict[int, Buffer] = {block: self._room(self.pages) for block in blocks}

    def hold(self, pages: int) -> None:
        """Have room for so many pages, in other buffers. One full sequence gets no more than it was planned with."""
        most = self._gpu.binding // self._page_bytes
        if self.pages < self._full:
            most = min(most, self._full)
        room = max(pages, min(2 * self.pages, most))
        for block, old in self.buffers.items():
            new = self._room(room)
            self._gpu.submit([], copies=[(old, 0, new, 0, self.pages * self._page_bytes)])
            self.buffers[block] = new
            self._gpu.free(old)
        self.pages = room

    def copy(self, source: int, target: int) -> None:
        """Copy a page of all layers."""
        n = self._page_bytes
        between = self._between
        for buffer in self.buffers.values():
            self._gpu.submit([], copies=[(buffer, source * n, between, 0, n), (between, 0, buffer, target * n, n)])

    def _room(self, pages: int) -> Buffer:
        return self._gpu.buffer(pages * self._page_bytes, "the KV cache of a layer")
