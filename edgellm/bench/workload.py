"""The timed work, the same for both sides: a prompt in batches, then tokens one by one, after `depth` others."""

from collections.abc import Sequence as Ids
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from edgellm.bench.options import BenchOptions
from edgellm.engine.protocol import Segment, Sequence

WARM_UP_STEPS = 8
"""Decode steps of the warm-up."""

UNTIMED_STEPS = 1
"""Steps before the timed ones: after a pause, or after the other side's work, the first takes 5 to 15 % longer."""


class TimedEngine(Protocol):
    """The part of an engine that is timed; see `edgellm.engine.protocol.Engine`."""

    vocab: int
    max_rows: int

    def new_sequence(self) -> Sequence:
        """An empty sequence."""

    def forward(self, segments: Ids[Segment[Any]]) -> object:
        """Compute up to `max_rows` rows, and the requested logits."""


class Workload:
    """`parallel` sequences that hold `depth` tokens before a prompt or the first decode step.

    Each has its own state and tokens, so that no sequence profits from data that another left in a cache. The tokens
    are random, but the same in every process.
    """

    def __init__(self, engine: TimedEngine, depth: int, parallel: int) -> None:
        self._engine, self._depth = engine, depth
        self._random = np.random.default_rng(1)
        self._sequences = [engine.new_sequence() for _ in range(parallel)]

    def prefill(self, n: int) -> float:
        """Seconds from a prompt of `n` tokens to the logits of the last one, in one sequence."""
        first, tokens = self._sequences[0], self._random_tokens(n)
        self._rewind(first)
        began = perf_counter()
        self._prefill(first, tokens)
        return perf_counter() - began

    def decode(self, n: int, before: int = 0) -> float:
        """Seconds of `n` steps after `before` others; each computes a token and its logits in all sequences.

        UNTIMED_STEPS other steps at the same position come first and are rewound.
        """
        steps = [self._random_tokens(len(self._sequences)) for _ in range(UNTIMED_STEPS + n)]
        self._run(steps[:UNTIMED_STEPS], before)
        return self._run(steps[UNTIMED_STEPS:], before)

    def keep_busy(self, seconds: float) -> None:
        """Decode in one sequence for `seconds`."""
        first, began = self._sequences[0], perf_counter()
        while perf_counter() - began < seconds:
            self._rewind(first)
            self._prefill(first, self._random_tokens(1))

    def _run(self, steps: list[list[int]], before: int) -> float:
        """Seconds of steps, each with a token for each sequence, after `before` other steps."""
        for sequence in self._sequences:
            self._rewind(sequence, before)
        began = perf_counter()
        for tokens in steps:
            self._engine.forward([Segment(s, [t], [0]) for s, t in zip(self._sequences, tokens, strict=True)])
        return perf_counter() - began

    def _rewind(self, sequence: Sequence, steps: int = 0) -> None:
        """Trim a sequence to `depth` + `steps` tokens, or extend it to that many, and be able to go back there."""
        wanted = self._depth + steps
        left = sequence.trim(wanted)
        if left < wanted:
            self._prefill(sequence, self._random_tokens(wanted - left))
            sequence.mark()

    def _prefill(self, sequence: Sequence, tokens: list[int]) -> None:
        for start in range(0, len(tokens), self._engine.max_rows):
            batch = tokens[start : start + self._engine.max_rows]
            self._engine.forward([Segment(sequence, batch, [len(batch) - 1])])

    def _random_tokens(self, n: int) -> list[int]:
        tokens: list[int] = self._random.integers(0, self._engine.vocab, n).tolist()
        return tokens


class BenchSide(Protocol):
    """A side of a benchmark: edgellm's `Workload`, or the baseline."""

    def prefill(self, n: int) -> float:
        """Seconds of a prompt of `n` tokens."""

    def decode(self, n: int, before: int = 0) -> float:
        """Seconds of `n` steps after `before` others."""


def warm_up(side: BenchSide, options: BenchOptions) -> None:
    """Fill the sequences to their depth, load the file into memory, and let the cores reach their clock."""
    if options.prompt_tokens:
        side.prefill(options.prompt_tokens)
    if options.tokens:
        side.decode(min(options.tokens, WARM_UP_STEPS))
