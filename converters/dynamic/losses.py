"""The loss of quantizing one tensor: how far the model then is from itself, on a text."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from converters.dynamic.settings import DynamicSettings
from converters.row_converter import RowConverter
from converters.streaming import row_chunks
from converters.tensors import PlannedTensor
from edgellm.engine.protocol import Engine, Segment
from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path
from edgellm.generate.engines import open_engine
from edgellm.gguf import GGUFFile, Tensor
from edgellm.model import Model
from edgellm.options import LoadOptions
from edgellm.perplexity.metrics import Softmax
from edgellm.perplexity.windows import Windows

_TOKENS = 2048
"""The most tokens of the text that are read for each tensor."""

_REFERENCE_BYTES = 1 << 29
"""The most bytes of the logits that the model itself gives."""

_ROWS = 64
"""Positions whose divergence is computed together."""


class Losses:
    """A model in a file of floats, a text that it reads, and the logits that it has there."""

    def __init__(self, file: GGUFFile, settings: DynamicSettings, threads: int | None) -> None:
        self._file, self._options = file, LoadOptions(threads=threads, gpu_layers=0)
        model = Model(file, self._options, settings.compiling)
        with closing(model.engine):
            windows = Windows([model], settings.text, None)
            self._options = replace(self._options, ctx=windows.ctx)
            self._first, size = windows.first, 4 * model.engine.vocab * (windows.ctx - windows.first)
            self._windows = list(islice(windows, max(1, min(_TOKENS // windows.ctx, _REFERENCE_BYTES // size))))
            self._reference = list(self._logits(model.engine))

    def of(self, tensor: PlannedTensor, converter: RowConverter) -> float:
        """KL(model || model with the tensor in its planned type), the mean over second halves of windows, in nats.

        Raises ModelFileError for weights of NaN or Inf, EdgeLLMError for logits of NaN or Inf.
        """
        changed = self._file.with_tensor(_encoded(self._file.tensors[tensor.source.name], tensor, converter))
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
                    self._check(logits)
                    yield logits.copy()

    def _check(self, logits: NDArray[np.float32]) -> None:
        if not np.isfinite(logits).all():
            name = shown_path(self._file.path)
            raise EdgeLLMError(f"{name}: computes NaN or infinite logits; edgellm verify may tell why")


def _divergences(reference: NDArray[np.float32], logits: NDArray[np.float32]) -> NDArray[np.float64]:
    return Softmax.of(reference).kl_divergence(Softmax.of(logits))


def _encoded(stored: Tensor, tensor: PlannedTensor, converter: RowConverter) -> Tensor:
    """The tensor in the type that is planned for it."""
    source = tensor.source
    data = np.empty((source.row_count, tensor.type.row_bytes(source.columns)), np.uint8)
    for _, _, _, first, last in row_chunks([tensor], [0]):
        data[first:last] = converter.convert(tensor, first, source.rows(first, last)).data
    return replace(stored, type=tensor.type, data=data.reshape(-1))
