"""`edgellm imatrix`: a model reads a text, and the squares of what its matrices are multiplied by are added up.

The text is cut into chunks as `edgellm perplexity` cuts it, and llama.cpp's llama-imatrix; each is read from an empty
context. All tokens count, those without much context, too.
"""

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal

from converters.importance.experts import few_tokens_warnings
from converters.importance.sums import (
    MODEL_MARK,
    START_ANEW,
    TEXT_MARK,
    SquareSums,
    SumsSoFar,
    model_mark,
    resumed,
    text_mark,
    write_imatrix,
)
from converters.target import check_target
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.outputs import OutputSettings
from edgellm.errors import EdgeLLMWarning
from edgellm.gguf import GGUFFile
from edgellm.gguf.imatrix import Imatrix, read_imatrix
from edgellm.model import Model
from edgellm.models import resolve
from edgellm.options import validate
from edgellm.options.checks import integer
from edgellm.perplexity.metrics import negative_log_likelihood
from edgellm.perplexity.windows import Windows, evaluate_windows
from kquants.jit import Progress

_MORE_TEXT = "append more text, of the kinds that the model is for, and run this again: it goes on"

_SAVE_S = 60.0
"""Seconds between two times that the file is written."""


@dataclass(frozen=True)
class ImatrixProgress:
    """`chunks` of `of` chunks are read, `before` of them by an earlier run; `perplexity` is that of the others.

    `before` may be more than `of`, the number that was asked for.
    """

    chunks: int
    of: int
    before: int
    perplexity: float | None = None


ReportProgress = Callable[[ImatrixProgress], None]


def imatrix(
    model: str | os.PathLike[str],
    text: str,
    out: str | os.PathLike[str],
    *,
    dataset: str = "",
    ctx: int | None = None,
    chunks: int | None = None,
    force: bool = False,
    threads: int | None = None,
    kv_type: Literal["f16", "f32", "q8_0"] = "f16",
    progress: ReportProgress = lambda so_far: None,
    compile_progress: Progress | None = None,
) -> Imatrix:
    """Have a model read `text`, and write its importance matrix to the file `out`, in llama.cpp's GGUF format.

    `model` is a path or, as text, a name that the commands take; a model of floats gives the best matrix. `dataset` is
    recorded as the name of the text, `ctx` is the number of tokens of a chunk, by default 512 or the model's context if
    that is less, and `chunks` the most chunks, from the first. If `out` exists, of the same model and the beginning of
    the text, the chunks that it lacks are added, unless `force` starts anew: it is written every minute, and at an
    interrupt. The result depends neither on interrupts nor on `threads`.

    Warns (EdgeLLMWarning) of experts that saw few tokens. Raises OptionError, ModelFileError, UnsupportedModelError,
    and EdgeLLMError for a text of less than two chunks, an existing file of another model or text, and one that cannot
    be written.
    """
    if chunks is not None:
        validate("chunks", integer(1), chunks)
    path = resolve(model) if isinstance(model, str) else Path(model)
    with GGUFFile.open(path) as file:
        target = check_target(out, [*file.paths, dataset], force=True)
    outputs = OutputSettings(squares=True)
    with Model.open(
        path, progress=compile_progress, outputs=outputs, threads=threads, ctx=ctx, kv_type=kv_type, gpu_layers=0
    ) as opened:
        windows = Windows([opened], text, ctx, dataset or "the text")
        earlier = read_imatrix(target, START_ANEW) if target.exists() and not force else None
        job = _Job(opened, windows, target, dataset, model_mark(opened.file, kv_type), earlier)
        found = job.run(min(chunks or len(windows), len(windows)), progress)
    for warning in few_tokens_warnings(found, _MORE_TEXT):
        warnings.warn(warning, EdgeLLMWarning, stacklevel=2)
    return found


class _Job:
    """A model, the windows that it reads, and the sums so far: those of an earlier file, or none."""

    def __init__(
        self, model: Model, windows: Windows, target: Path, dataset: str, mark: str, earlier: Imatrix | None
    ) -> None:
        self._model, self._windows, self._target, self._mark = model, windows, target, mark
        datasets = earlier.datasets if earlier else ()
        self._datasets = datasets if dataset in datasets or not dataset else (*datasets, dataset)
        before = resumed(earlier, windows.ids, windows.ctx, mark) if earlier else SumsSoFar({}, 0)
        self._sums = SquareSums(model.file, before)

    @property
    def _found(self) -> Imatrix:
        entries, chunks = self._sums.so_far
        ctx = self._windows.ctx
        marks = {MODEL_MARK: self._mark, TEXT_MARK: text_mark(self._windows.ids[: chunks * ctx])}
        return Imatrix(self._target, entries, self._datasets, chunks, ctx, marks)

    def run(self, of: int, progress: ReportProgress) -> Imatrix:
        """Read the first `of` chunks but for those that were read; the file has what is done, whatever happens."""
        before = saved = self._sums.so_far.chunks
        progress(ImatrixProgress(before, of, before))
        engine, saved_at = self._model.engine, monotonic()
        assert isinstance(engine, NativeEngine)
        try:
            every = evaluate_windows([self._model], self._windows, negative_log_likelihood, before, of, whole=True)
            for values in every:
                self._sums.add(engine.take_squares())
                chunks = self._sums.so_far.chunks
                progress(ImatrixProgress(chunks, of, before, math.exp(values[0].mean())))
                if monotonic() - saved_at > _SAVE_S:
                    write_imatrix(self._found)
                    saved, saved_at = chunks, monotonic()
        finally:
            if self._sums.so_far.chunks > saved:
                write_imatrix(self._found)
        return self._found
