"""The requests of a run: when they arrive, and how long prompts and replies are."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile

import numpy as np

from edgellm.bench.serving.lengths import Lengths
from edgellm.bench.serving.options import ServingOptions
from edgellm.bench.serving.prompts import PromptMaker
from edgellm.bench.serving.target import LoadRequest

_ARRIVALS, _LENGTHS = 3, 4


def poisson_arrivals(rate: float, random: np.random.Generator) -> Iterator[float]:
    """Times of a Poisson process with `rate` events per second: the gaps are exponentially distributed."""
    now = 0.0
    while True:
        now += float(random.exponential(1 / rate))
        yield now


class RequestSource:
    """Requests whose prompts and replies have random lengths. The same seed gives the same requests.

    Each run takes the next ones, so that no prompt is in a cache because an earlier run had it.
    """

    def __init__(self, prompts: PromptMaker, options: ServingOptions, seed: int) -> None:
        self._prompts, self._prompt, self._reply = prompts, options.prompt_tokens, options.tokens
        self._arrivals, self._lengths = (np.random.default_rng([seed, use]) for use in (_ARRIVALS, _LENGTHS))

    def take(self, n: int) -> list[LoadRequest]:
        """The next `n` requests, without arrivals."""
        return [LoadRequest(self._prompts.prompt(self._draw(self._prompt)), self._draw(self._reply)) for _ in range(n)]

    def poisson(self, rate: float, n: int | None, duration: float) -> list[LoadRequest]:
        """The next requests, which arrive with `rate` per second: `n`, or those of `duration` seconds."""
        arrivals = poisson_arrivals(rate, self._arrivals)
        times = list(takewhile(lambda time: time < duration, arrivals) if n is None else islice(arrivals, n))
        return [replace(each, arrival_s=time) for each, time in zip(self.take(len(times)), times, strict=True)]

    def _draw(self, lengths: Lengths) -> int:
        return int(self._lengths.integers(lengths.least, lengths.most, endpoint=True))
