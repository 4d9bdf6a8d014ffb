"""The loss of quantizing one tensor: how far the model then is from itself, on a text."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from converters.dynamic.candidates import importance_of, weights
from converters.streaming import CHUNK_WEIGHTS
from converters.tensors import PlannedTensor
from edgellm.engine.protocol import Engine, Segment
from edgellm.generate.engines import open_engine
from edgellm.gguf import GGUFFile, Tensor
from edgellm.model import Model
from edgellm.options import LoadOptions
from edgellm.perplexity.metrics import Softmax
from edgellm.perplexity.windows import Windows
from edgellm.system.folders import cache_folder
from kquants.encode import encode_into
from kquants.ggml import GGMLType

_TOKENS = 2048
"""The most tokens of the text that are read for each tensor."""

_REFERENCE_BYTES = 1 << 29
"""The most bytes of the logits that the model itself gives."""

_ROWS = 64
"""Positions whose divergence is computed together."""


class Losses:
    """A model in a file of floats, a text that it reads, and the logits that it has there."""

    def __init__(self, file: GGUFFile, text: str, threads: int | None) -> None:
        self._file, self._options = file, LoadOptions(threads=threads, gpu_layers=0)
        model = Model(file, self._options)
        with closing(model.engine):
            windows = Windows([model], text, None)
            self._options = replace(self._options, ctx=windows.ctx)
            self._first, size = windows.first, 4 * model.engine.vocab * (windows.ctx - windows.first)
            self._windows = list(islice(windows, max(1, min(_TOKENS // windows.ctx, _REFERENCE_BYTES // size))))
            self._reference = list(self._logits(model.engine))

    @property
    def tokens(self) -> int:
        """The tokens that the model reads for each tensor."""
        return sum(map(len, self._windows))

    def of(self, tensor: PlannedTensor, kind: GGMLType) -> float:
        """KL(model || model with the tensor in a type), the mean over the second halves of the windows, in nats."""
        changed = self._file.with_tensor(_encoded(self._file.tensors[tensor.source.name], tensor, kind))
        with closing(open_engine(changed, self._options, None, None)) as engine:
            found = [_divergences(*pair) for pair in zip(self._reference, self._logits(engine), strict=True)]
        return float(np.concatenate(found).mean())

    def _logits(self, engine: Engine) -> Iterator[NDArray[np.float32]]:
        """The logits of the scored positions of each window, some at a time, float32 [rows, vocab]."""
        for window in self._windows:
            sequence, last = engine.new_sequence(), len(window) - 1
            for start, end in pairwise(
                [*range(0, self._first, engine.max_rows), *range(self._first, last, _ROWS), last]
            ):
                scored = range(end - start) if start >= self._first else ()
                logits = engine.forward([Segment(sequence, window[start:end], scored)])
                if scored:
                    yield logits.copy()


def _divergences(reference: NDArray[np.float32], logits: NDArray[np.float32]) -> NDArray[np.float64]:
    return Softmax.of(reference).kl_divergence(Softmax.of(logits))


def _encoded(stored: Tensor, tensor: PlannedTensor, kind: GGMLType) -> Tensor:
    """The tensor in a type."""
    source, row_bytes = tensor.source, kind.row_bytes(tensor.source.columns)
    data = np.empty((source.row_count, row_bytes), np.uint8)
    for first, last in _chunks(tensor):
        encode_into(data[first:last], kind, weights(tensor, first, last), cache_folder(), importance_of(tensor, first))
    return replace(stored, type=kind, data=data.reshape(-1))


def _chunks(tensor: PlannedTensor) -> Iterator[Sequence[int]]:
    """(first, last) of rows that are encoded together: those of one matrix, as each has its own importance."""
    rows = tensor.source.shape[-2]
    step = max(1, CHUNK_WEIGHTS // tensor.source.columns)
    for matrix in range(0, tensor.source.row_count, rows):
        for first in range(matrix, matrix + rows, step):
            yield first, min(first + step, matrix + rows)
