"""Our engine: batches of rows in, logits out."""

from collections.abc import Sequence as Ids
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.engine.batch import Batch, Segment
from edgellm.engine.cpu import CPUDevice
from edgellm.engine.pages import Sequence
from edgellm.engine.program import build
from edgellm.errors import ContextOverflowError, EdgeLLMError, OptionError
from edgellm.gguf import GGUFFile
from edgellm.gguf.printable import printable
from kquants.jit import Progress

MAX_ROWS = 256
"""Rows of the largest batch: enough to read each weight once for many tokens, small enough to stop soon."""


class Stopped(Exception):  # noqa: N818 (it is news, not an error)
    """`Engine.stop` ended a computation; the sequences are as they were before it."""


class Engine:
    """A model on this machine. Not for several threads at once; only `stop` may be called from any.

    `ctx` is the most tokens that a sequence may hold, `vocab` the width of the logits.
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
        if ctx is not None and ctx > model.context_length:
            raise OptionError(
                f"option ctx cannot be {ctx}: "
                f"{printable(file.path.name)} was made for up to {model.context_length} tokens"
            )
        self.ctx = ctx or model.context_length
        self.vocab = model.vocab
        self.max_rows = min(MAX_ROWS, self.ctx)
        self._rope = model.rope
        self._device = CPUDevice(build(model, kv_type), self.max_rows, threads, cache, progress)
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

    def forward(self, segments: Ids[Segment]) -> NDArray[np.float32]:
        """Compute up to `max_rows` rows, of different sequences; return float32 [wanted rows, vocab].

        Each sequence then holds its new tokens. Raises Stopped, ContextOverflowError, and EdgeLLMError for token
        ids that the model does not have; in each case the sequences hold what they held before.
        """
        for segment in segments:
            self._check(segment)
        rows = sum(len(s.tokens) for s in segments)
        if not 0 < rows <= self.max_rows:
            raise EdgeLLMError(f"a batch has 1 to {self.max_rows} rows, not {rows}; compute it in parts")
        if len({id(s.sequence) for s in segments}) < len(segments):
            raise EdgeLLMError("a batch holds each sequence once; join its tokens in one segment")
        for segment in segments:
            segment.sequence.reserve(len(segment.tokens))
        pages = self._device.pages.addresses
        logits = self._device.run(Batch(segments, self._rope, pages), self.vocab)
        if logits is None:
            raise Stopped
        for segment in segments:
            segment.sequence.append(segment.tokens)
        return logits

    def _check(self, segment: Segment) -> None:
        # Compiled code looks tokens up without asking: what is outside the table must not reach it.
        for token in segment.tokens:
            if not 0 <= token < self.vocab:
                raise EdgeLLMError(f"token id {token} is not in the vocabulary of {self.vocab}")
        over = len(segment.sequence) + len(segment.tokens) - self.ctx
        if over > 0:
            raise ContextOverflowError(
                f"the text is {over} tokens too long for the context of {self.ctx}: shorten it or raise --ctx"
            )

    def stop(self) -> None:
        """Stop what is computed now, or next: `forward` raises Stopped until `clear_stop`."""
        self._device.threads.stop()

    def clear_stop(self) -> None:
        """Forget an earlier `stop`."""
        self._device.threads.clear()

    def close(self) -> None:
        """End the threads and let go of the memory. Nothing may be computing."""
        self._device.close()
