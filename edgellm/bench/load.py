"""What is timed, alike on both sides: a prompt in batches, then tokens one by one, behind `depth` others."""

from collections.abc import Sequence as Ids
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from edgellm.bench.setting import Setting
from edgellm.engine.protocol import Segment, Sequence

WARM_STEPS = 8
"""Steps of decoding to warm up."""

OFF_THE_CLOCK = 1
"""Steps before those that are timed: after a rest, or after what others did, the first takes 5 to 15 % longer."""


class Computes(Protocol):
    """The part of an engine that is timed; see `edgellm.engine.protocol.Engine`."""

    vocab: int
    max_rows: int

    def new_sequence(self) -> Sequence:
        """An empty sequence."""

    def forward(self, segments: Ids[Segment[Any]]) -> object:
        """Compute up to `max_rows` rows, and the logits of those wanted."""


class Load:
    """`parallel` sequences that hold `depth` tokens when a prompt or the first step begins.

    Each has state and tokens of its own, so that none is served from what another left in a cache. The tokens are
    random, but the same in every process.
    """

    def __init__(self, engine: Computes, depth: int, parallel: int) -> None:
        self._engine, self._depth = engine, depth
        self._random = np.random.default_rng(1)
        self._sequences = [engine.new_sequence() for _ in range(parallel)]

    def prefill(self, n: int) -> float:
        """Seconds to read a prompt of `n` tokens to the logits of its last one, in one sequence."""
        first, tokens = self._sequences[0], self._tokens(n)
        self._rewind(first)
        begin = perf_counter()
        self._read(first, tokens)
        return perf_counter() - begin

    def decode(self, n: int, before: int = 0) -> float:
        """Seconds for `n` steps that follow `before` others, each one token in all sequences and their logits.

        OFF_THE_CLOCK others are at the same place, and are forgotten.
        """
        steps = [self._tokens(len(self._sequences)) for _ in range(OFF_THE_CLOCK + n)]
        self._take(steps[:OFF_THE_CLOCK], before)
        return self._take(steps[OFF_THE_CLOCK:], before)

    def keep_busy(self, seconds: float) -> None:
        """Decode in one sequence for so long."""
        first, begin = self._sequences[0], perf_counter()
        while perf_counter() - begin < seconds:
            self._rewind(first)
            self._read(first, self._tokens(1))

    def _take(self, steps: list[list[int]], before: int) -> float:
        """Seconds for steps, of which each has a token for each sequence, behind `before` others."""
        for sequence in self._sequences:
            self._rewind(sequence, before)
        begin = perf_counter()
        for tokens in steps:
            self._engine.forward([Segment(s, [t], [0]) for s, t in zip(self._sequences, tokens, strict=True)])
        return perf_counter() - begin

    def _rewind(self, sequence: Sequence, steps: int = 0) -> None:
        """Let a sequence hold `depth` tokens, and those of `steps`; those still there are not computed again."""
        wanted = self._depth + steps
        left = sequence.trim(wanted)
        if left < wanted:
            self._read(sequence, self._tokens(wanted - left))

    def _read(self, sequence: Sequence, tokens: list[int]) -> None:
        for start in range(0, len(tokens), self._engine.max_rows):
            part = tokens[start : start + self._engine.max_rows]
            self._engine.forward([Segment(sequence, part, [len(part) - 1])])

    def _tokens(self, n: int) -> list[int]:
        tokens: list[int] = self._random.integers(0, self._engine.vocab, n).tolist()
        return tokens


class Timed(Protocol):
    """A side of a benchmark: `Load`, or the peer."""

    def prefill(self, n: int) -> float:
        """Seconds to read a prompt of `n` tokens."""

    def decode(self, n: int, before: int = 0) -> float:
        """Seconds for `n` steps that follow `before` others."""


def warm_up(side: Timed, setting: Setting) -> None:
    """Bring the sequences to their depth, the file into memory, and the cores to their speed."""
    if setting.prompt_tokens:
        side.prefill(setting.prompt_tokens)
    if setting.tokens:
        side.decode(min(setting.tokens, WARM_STEPS))
