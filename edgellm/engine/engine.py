"""Our engine: batches of rows in, logits out."""

from collections.abc import Sequence as Ids
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.engine.batch import Batch
from edgellm.engine.cpu import CPUDevice
from edgellm.engine.pages import Sequence
from edgellm.engine.program import Program, build
from edgellm.engine.protocol import Segment, Stopped, check_batch
from edgellm.errors import EdgeLLMError, OptionError
from edgellm.gguf import GGUFFile
from edgellm.gguf.printable import printable
from kquants.jit import Progress
from kquants.layout import MOST_ROWS

MOST_ACTIVATIONS, LEAST_ROWS = 48 << 20, 16
"""Bytes that activations may take, with fewer rows for very wide models; but never less rows than this."""


def context(file: GGUFFile, model: Description, ctx: int | None) -> int:
    """The most tokens of a sequence: `ctx`, or as many as the model can. Raises OptionError for more than that."""
    if ctx is not None and ctx > model.context_length:
        raise OptionError(
            f"option ctx cannot be {ctx}: {printable(file.path.name)} was made for up to {model.context_length} tokens"
        )
    return ctx or model.context_length


def batch_rows(program: Program, ctx: int) -> int:
    """Rows of the largest batch."""
    return min(MOST_ROWS, ctx, max(LEAST_ROWS, MOST_ACTIVATIONS // program.row_bytes))


class Engine:
    """A model on this machine. Not for several threads at once; only `stop` may be called from any.

    See `edgellm.engine.protocol.Engine`; here the logits do not depend on how tokens are split over batches.
    """

    def __init__(
        self,
        file: GGUFFile,
        *,
        threads: int,
        ctx: int | None,
        kv_type: str,
        cache: Path,
        progress: Progress | None = None,
    ) -> None:
        """Describe, check and make ready the model of an open file; its tensors stay in the map.

        Raises UnsupportedModelError, ModelFileError, OptionError (a `ctx` above the model's) and EdgeLLMError.
        """
        model = describe(file)
        self.ctx = context(file, model, ctx)
        self.vocab = model.vocab
        program = build(model, kv_type)
        self.max_rows = batch_rows(program, self.ctx)
        self._rope = model.rope
        self._device = CPUDevice(program, self.max_rows, threads, cache, progress)
        self._closed = False
        self._layers = len(model.layers)
        self._weights = sum(tensor.nbytes for tensor in file.tensors.values())

    @property
    def threads(self) -> int:
        """Threads that compute."""
        return self._device.threads.count

    @property
    def devices(self) -> list[dict[str, Any]]:
        """What runs where: name, blocks (a mixer and a feed-forward a layer, and the head), bytes of weights."""
        return [{"name": "CPU", "blocks": 2 * self._layers + 1, "bytes": self._weights}]

    def new_sequence(self) -> Sequence:
        """An empty sequence."""
        return Sequence(self._device.pages)

    def forward(self, segments: Ids[Segment[Sequence]]) -> NDArray[np.float32]:
        """Compute up to `max_rows` rows, of different sequences; return float32 [wanted rows, vocab].

        Each sequence then holds its new tokens. Raises Stopped, ContextOverflowError, and EdgeLLMError for token
        ids that the model does not have; in each case the sequences hold what they held before.
        """
        if self._closed:
            raise EdgeLLMError("the engine was closed; open the model again")
        self._device.threads.settle()  # before anything that an interrupted run may still use is touched
        check_batch(self, segments)
        if not all(segment.sequence.belongs_to(self._device.pages) for segment in segments):
            raise EdgeLLMError("a sequence belongs to the engine that made it")
        for segment in segments:
            segment.sequence.reserve(len(segment.tokens))
        pages = self._device.pages.addresses
        logits = self._device.run(Batch(segments, self._rope, pages), self.vocab)
        if logits is None:
            raise Stopped
        for segment in segments:
            segment.sequence.append(segment.tokens)
        return logits

    def stop(self) -> None:
        """Stop what is computed now, or next: `forward` raises Stopped until `clear_stop`."""
        self._device.threads.stop()

    def clear_stop(self) -> None:
        """Forget an earlier `stop`."""
        self._device.threads.clear()

    def close(self) -> None:
        """End the threads and let go of the memory. Nothing may be computing; only the first call does something."""
        if not self._closed:
            self._device.close()
            self._closed = True
