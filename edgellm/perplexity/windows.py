"""The windows of a text, and the logits of what is scored in them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from edgellm.engine.protocol import Segment
from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import counted, printable
from edgellm.model import Model
from edgellm.options.checks import integer
from edgellm.perplexity.softmax import Scores

DEFAULT_CTX = 512
"""Tokens of a window, if the models can: llama.cpp's default."""

LEAST_CTX = 5
"""The least window in which two tokens are scored: one has no standard error."""

_LOGITS_BYTES = 32 << 20
"""Most bytes of logits that a model makes at once, so that large vocabularies need little memory."""

_BLOCK = 1 << 17
"""Logits that are scored at once: float32 that stay in the second-level cache."""

_LARGEST = 700.0
"""A score that no working model gives; its exponential is still a number."""

Measure = Callable[..., Scores]
"""From logits float32 [rows, vocab] of each model, and the tokens that came, to [scores, rows]."""


class Windows:
    """The windows of a text: lists of `ctx` token ids, by the first model's tokenizer.

    Raises OptionError for a `ctx` that not all models have, EdgeLLMError for a text of less than two windows.
    """

    def __init__(self, models: Sequence[Model], text: str, ctx: int | None) -> None:
        self.ctx = _checked(ctx, min(model.ctx for model in models))
        tokenizer = models[0].tokenizer
        self._bos = tokenizer.bos_id if tokenizer.add_bos else None
        self._ids = tokenizer.encode(text, add_special=True)
        self._check_ids(models[0].engine.vocab)

    def _check_ids(self, vocab: int) -> None:
        n, needed = len(self._ids), 2 * self.ctx
        if n < needed:
            raise EdgeLLMError(
                f"the text has {counted(n, 'token')}, and two windows of {self.ctx:,} need {needed:,}: "
                "give a longer text, or a smaller ctx"
            )
        if max(self._ids) >= vocab:  # the engine asks this of what it reads, but not of what only comes
            raise EdgeLLMError(f"token id {max(self._ids)} is not in the vocabulary of {vocab}")

    def __len__(self) -> int:
        return len(self._ids) // self.ctx

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self) * self.ctx, self.ctx):
            window = self._ids[start : start + self.ctx]
            if self._bos is not None:
                window[0] = self._bos
            yield window

    @property
    def first(self) -> int:
        """The first position whose logits count: for the token behind it."""
        return self.ctx // 2

    @property
    def scored(self) -> int:
        """How many tokens are scored in a window: the logits of its last position are for none of them."""
        return self.ctx - 1 - self.first


def _checked(ctx: int | None, most: int) -> int:
    try:
        return integer(LEAST_CTX, most)(min(DEFAULT_CTX, most) if ctx is None else ctx)
    except ValueError as error:
        raise OptionError(f"option ctx cannot be {ctx}: give {error}") from None


def scored(models: Sequence[Model], windows: Windows, measure: Measure) -> Iterator[Scores]:
    """After each window, the scores of all positions so far: [scores, positions]. Raises EdgeLLMError."""
    so_far: list[Scores] = []
    for window in windows:
        so_far += [measure(*block) for block in _blocks(models, window, windows.first)]
        so_far = [np.concatenate(so_far, axis=1)]
        if not (np.abs(so_far[0]) < _LARGEST).all():
            names = " or ".join(printable(str(model.file.path), 400) for model in models)
            raise EdgeLLMError(f"{names}: gives logits that are no healthy numbers; edgellm verify may tell why")
        yield so_far[0]


def _blocks(models: Sequence[Model], window: list[int], first: int) -> Iterator[tuple[Any, ...]]:
    """Arguments of a `Measure` for a few rows at a time: the positions of a window from `first` on."""
    engines = [model.engine for model in models]
    sequences = [engine.new_sequence() for engine in engines]
    vocab, rows = engines[0].vocab, min(engine.max_rows for engine in engines)
    few, fewer = min(rows, max(1, _LOGITS_BYTES // (4 * vocab))), max(1, _BLOCK // vocab)
    last = len(window) - 1
    for start, end in pairwise([*range(0, first, rows), *range(first, last, few), last]):
        wanted = range(end - start) if start >= first else ()
        segments = [Segment(sequence, window[start:end], wanted) for sequence in sequences]
        logits = [engine.forward([segment]) for engine, segment in zip(engines, segments, strict=True)]
        came = np.array(window[start + 1 : end + 1])
        for i in range(0, len(wanted), fewer):
            yield *(each[i : i + fewer] for each in logits), came[i : i + fewer]
