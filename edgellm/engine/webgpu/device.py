"""A GPU as a device: it holds the tensors, activations and KV pages of its blocks, and runs them."""

from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.description import Description
from edgellm.engine.batch import Batch
from edgellm.engine.device import Logits
from edgellm.engine.limits import BatchLimits
from edgellm.engine.placement import Placement, head
from edgellm.engine.protocol import Stopped
from edgellm.engine.webgpu.batch_layout import FIRST_OUTPUT, SIDE, lay_out, page_ids, position_rows
from edgellm.engine.webgpu.blocks import GPUAttention, GPUFeedForward, GPUOutputHead
from edgellm.engine.webgpu.commands import Dispatch
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.expert_blocks import GPUMixture
from edgellm.engine.webgpu.expert_scratch import slot_sizes
from edgellm.engine.webgpu.kv_pages import GPUKVPages
from edgellm.engine.webgpu.lowering import FEW_ROWS, BatchKind, BlockLowering
from edgellm.engine.webgpu.offloaded import OffloadedBlocks
from edgellm.engine.webgpu.scratch import Scratch

_SUBMISSION_S = 0.05
"""The most seconds of work between checks for a stop, unless a single block takes longer."""


class GPUDevice:
    """The blocks that a placement puts on the GPU, made ready for batches; see `edgellm.engine.device.Device`.

    `uploaded` is called with the bytes of each step of the upload, and later with 0 after some blocks of a large batch,
    as a sign of life. `kv_limit` is the most bytes of KV pages. The constructor and all methods raise DeviceFault.
    """

    def __init__(
        self,
        gpu: GPUContext,
        model: Description,
        placement: Placement,
        limits: BatchLimits,
        uploaded: Callable[[int], None],
        kv_limit: int | None = None,
    ) -> None:
        self.gpu, self.name, self.stats, self._model = gpu, gpu.name, gpu.stats, model
        self._blocks = blocks = OffloadedBlocks.of(model, placement)
        self._head = head(len(model.layers))
        self._scratch = Scratch(gpu, blocks, limits)
        self._lowering = BlockLowering(gpu, blocks, self._scratch, limits.kv_type)
        self._attentions = {i: GPUAttention.of(gpu, model, each, uploaded) for i, each in blocks.attentions.items()}
        self._feed_forwards = {
            i: GPUFeedForward.of(gpu, model, each, model.layers[i // 2].output_scale, uploaded)
            for i, each in blocks.feed_forwards.items()
        }
        self._mixtures = {
            i: GPUMixture.of(gpu, model, each, model.layers[i // 2].output_scale, uploaded)
            for i, each in blocks.mixtures.items()
        }
        self._output = GPUOutputHead.of(gpu, model, uploaded) if blocks.head else None
        self._kv_pages = GPUKVPages(gpu, blocks, limits, kv_limit)
        self._dispatches: dict[tuple[int, BatchKind], list[Dispatch]] = {}
        self._hidden = np.zeros((limits.rows, self._scratch.x.width), np.float32)
        self._batch: Batch | None = None
        self._sizes: dict[str, int] = {}
        self._alive = partial(uploaded, 0)
        self._stop = False

    def _steps(self, block: int, kind: BatchKind) -> list[Dispatch]:
        """The dispatches of a block, made when first needed, as compiling their shaders takes time."""
        key = block, kind
        if key not in self._dispatches:
            lowering = self._lowering
            if block in self._attentions:
                self._dispatches[key] = lowering.attention(self._attentions[block], self._kv_pages.buffers(block), kind)
            elif block in self._feed_forwards:
                self._dispatches[key] = lowering.feed_forward(self._feed_forwards[block], kind)
            elif block in self._mixtures:
                self._dispatches[key] = lowering.mixture(self._mixtures[block], kind)
            elif block == self._head and self._output:
                self._dispatches[key] = lowering.output_head(self._output, kind)
            else:
                self._dispatches[key] = []  # a layer without a mixer or feed-forward
        return self._dispatches[key]

    def ensure_pages(self, group: int, pages: int) -> None:
        """See `Device`."""
        own = self._kv_pages.groups[group]
        if pages > own.pages:  # drop dispatches before their buffers, as an interrupt may come in between
            self._dispatches = {key: steps for key, steps in self._dispatches.items() if key[0] not in own.buffers}
            self._kv_pages.ensure_pages(group, pages)

    def copy_page(self, group: int, source: int, target: int) -> None:
        """See `Device`."""
        self._kv_pages.copy_page(group, source, target)

    def run(self, blocks: range, batch: Batch, hidden: NDArray[np.float32]) -> Logits | None:
        """See `Device`."""
        self._check()
        self._send(batch, hidden)
        layers = range(blocks.start, min(blocks.stop, self._head))
        if batch.rows <= FEW_ROWS:
            kind: BatchKind = "single" if max(batch.lengths) == 1 else "few"
            pending = [step for block in layers for step in self._steps(block, kind)]
        else:
            pending = []
            self._run_many(layers)
        if self._head in blocks:
            return self._logits(batch, pending)
        nbytes = 4 * batch.rows * self._scratch.x.width
        found = self.gpu.fetch(pending, self._sizes, self._scratch.x.buffer, nbytes, again=bool(pending))
        hidden[:] = found.reshape(batch.rows, -1)[:, : self._model.width]
        return None

    def _run_many(self, layers: range) -> None:
        """Run blocks for many rows: first one block, then up to twice as many in each submission."""
        together = 1
        while layers:
            own, layers = layers[:together], layers[together:]
            steps = [step for block in own for step in self._steps(block, "many")]
            started = perf_counter()
            self.gpu.submit(steps, self._sizes)
            self.gpu.wait()
            self._alive()
            self._check()
            each = (perf_counter() - started) / len(own)
            together = max(1, min(2 * together, int(_SUBMISSION_S / each)))

    def _send(self, batch: Batch, hidden: NDArray[np.float32]) -> None:
        """Write the hidden state, and the batch unless it was written before."""
        s = self._scratch
        if self._batch is not batch:
            self._batch = None
            layout = lay_out(batch, self._blocks.row_kinds, s.widths.split_rows)
            for buffer, header in zip(s.batches, layout.headers, strict=True):
                self.gpu.write(buffer, header)
            if self._attentions:
                for group, tables in s.tables.items():
                    self.gpu.write(tables, page_ids(batch, group))
            for key, buffer in s.positions.items():
                self.gpu.write(buffer, position_rows(batch, key))
            self._batch, self._sizes = batch, layout.sizes | slot_sizes(s.widths.experts, batch.rows)
        self._hidden[: batch.rows, : self._model.width] = hidden
        self.gpu.write(s.x.buffer, self._hidden[: batch.rows])

    def _logits(self, batch: Batch, pending: list[Dispatch]) -> Logits:
        """Run the pending dispatches and the output head, for as many outputs at a time as there is room for."""
        s, vocab = self._scratch, self._model.vocab
        logits = np.empty((batch.outputs, vocab), np.float32)
        for first in range(0, batch.outputs, s.widths.logit_rows):
            self._check()
            count = min(s.widths.logit_rows, batch.outputs - first)
            self.gpu.write(s.batches[0], np.array([count, first], np.uint32), 4 * (FIRST_OUTPUT - 1))
            sizes = self._sizes | {"outputs": count, "output row tiles": -(-count // SIDE)}
            head = self._steps(self._head, "few" if count <= FEW_ROWS else "many")
            steps, again = [*pending, *head], bool(pending)
            found = self.gpu.fetch(steps, sizes, s.logits.buffer, 4 * count * vocab, again=again)
            logits[first : first + count] = found.reshape(count, vocab)
            pending = []
        if pending:
            self.gpu.submit(pending, self._sizes)
            self.gpu.wait()
        return logits

    def _check(self) -> None:
        if self._stop:
            raise Stopped

    def stop(self) -> None:
        """See `Device`."""
        self._stop = True

    def clear(self) -> None:
        """See `Device`."""
        self._stop = False

    def close(self) -> None:
        """See `Device`."""
        self.gpu.close()
