"""The windows of a text, and metrics of the logits of their scored positions."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np

from edgellm.engine.protocol import Segment
from edgellm.errors import EdgeLLMError, OptionError, PromptError
from edgellm.fmt import counted, printable, shown_path
from edgellm.model import Model
from edgellm.options.checks import integer
from edgellm.perplexity.metrics import Values

DEFAULT_CTX = 512
"""Tokens of a window unless a model's context is smaller; llama.cpp's default."""

MIN_CTX = 5
"""The smallest window with two scored tokens; a single token has no standard error."""

_LOGITS_BYTES = 32 << 20
"""Largest logits of one batch, so that a large vocabulary needs little memory."""

_BLOCK = 1 << 17
"""Logits (float32) that are processed at once, so that they stay in the second-level cache."""

_MAX_NLL = 700.0
"""A negative log-likelihood that no working model gives; its exponential is still finite."""

Metric = Callable[..., Values]
"""From the logits float32 [rows, vocab] of each model, and the target ids [rows], to values [metrics, rows]."""


class Windows:
    """The windows of a text: lists of `ctx` token ids, from the first model's tokenizer. `ids` are those of the text.

    Errors call the text by its `name`. Raises OptionError for a `ctx` above that of a model, PromptError for a text of
    less than two windows, EdgeLLMError for a token that the model does not have.
    """

    def __init__(self, models: Sequence[Model], text: str, ctx: int | None, name: str = "the text") -> None:
        self.ctx = _checked(ctx, min(model.ctx for model in models))
        tokenizer = models[0].tokenizer
        self._bos = tokenizer.bos_id if tokenizer.add_bos else None
        self.ids = tokenizer.encode(text, add_special=True)
        self._check_ids(models[0].engine.vocab, printable(name, 400))

    def _check_ids(self, vocab: int, name: str) -> None:
        n, needed = len(self.ids), 2 * self.ctx
        if n < needed:
            problem = f"{name} has {counted(n, 'token')}, and at least {needed:,} are needed"
            raise PromptError(problem, "give a longer text, or a smaller {ctx}")
        if max(self.ids) >= vocab:  # the engine checks the ids that it reads, but the last target is only scored
            raise EdgeLLMError(f"token id {max(self.ids)} is not in the vocabulary of {vocab}")

    def __len__(self) -> int:
        return len(self.ids) // self.ctx

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self) * self.ctx, self.ctx):
            window = self.ids[start : start + self.ctx]
            if self._bos is not None:
                window[0] = self._bos
            yield window

    @property
    def first(self) -> int:
        """The first position whose logits are scored; they predict the token after it."""
        return self.ctx // 2

    @property
    def scored(self) -> int:
        """Scored tokens of a window; the logits of the last position predict none of them."""
        return self.ctx - 1 - self.first


def _checked(ctx: int | None, longest: int) -> int:
    try:
        return integer(MIN_CTX, longest)(min(DEFAULT_CTX, longest) if ctx is None else ctx)
    except ValueError as error:
        raise OptionError(f"option ctx cannot be {ctx}: give {error}") from None


def evaluate_windows(
    models: Sequence[Model],
    windows: Windows,
    metric: Metric,
    start: int = 0,
    stop: int | None = None,
    *,
    whole: bool = False,
) -> Iterator[Values]:
    """After each window, from `start` to before `stop`, the values of all positions so far: [metrics, positions].

    With `whole` the last token of each window is computed, too, though it predicts none that is scored. Raises
    EdgeLLMError for NaN or infinite logits.
    """
    so_far: list[Values] = []
    for window in islice(windows, start, stop):
        so_far += [metric(*block) for block in _blocks(models, window, windows.first, whole)]
        so_far = [np.concatenate(so_far, axis=1)]
        if not (np.abs(so_far[0]) < _MAX_NLL).all():
            names = " or ".join(shown_path(model.file.path) for model in models)
            raise EdgeLLMError(f"{names}: computes NaN, infinite or implausible logits; edgellm verify may tell why")
        yield so_far[0]


def _blocks(models: Sequence[Model], window: list[int], first: int, whole: bool) -> Iterator[tuple[Any, ...]]:
    """The arguments of a `Metric`, a few rows at a time, for the positions of a window from `first` on."""
    engines = [model.engine for model in models]
    sequences = [engine.new_sequence() for engine in engines]
    vocab, rows = engines[0].vocab, min(engine.max_rows for engine in engines) - whole
    batch_rows, block_rows = min(rows, max(1, _LOGITS_BYTES // (4 * vocab))), max(1, _BLOCK // vocab)
    last = len(window) - 1
    for start, end in pairwise([*range(0, first, rows), *range(first, last, batch_rows), last]):
        scored = range(end - start) if start >= first else ()
        tokens = window[start : end + (whole and end == last)]
        segments = [Segment(sequence, tokens, scored) for sequence in sequences]
        logits = [engine.forward([segment]) for engine, segment in zip(engines, segments, strict=True)]
        targets = np.array(window[start + 1 : end + 1])
        for i in range(0, len(scored), block_rows):
            yield *(each[i : i + block_rows] for each in logits), targets[i : i + block_rows]
