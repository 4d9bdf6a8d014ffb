"""The requests of a run: when they arrive, and how long prompts and replies are."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path

import numpy as np

from edgellm.bench.serving.options import ServingOptions
from edgellm.bench.serving.prompts import PromptMaker
from edgellm.bench.serving.target import LoadRequest
from edgellm.bench.serving.traces import TraceReader, TraceRow
from edgellm.errors import EdgeLLMError

_ARRIVALS, _LENGTHS = 3, 4
_MOST_ROWS = 100_000


def poisson_arrivals(rate: float, random: np.random.Generator) -> Iterator[float]:
    """Times of a Poisson process with `rate` events per second: the gaps are exponentially distributed."""
    now = 0.0
    while True:
        now += float(random.exponential(1 / rate))
        yield now


def random_rows(options: ServingOptions, seed: int) -> Iterator[TraceRow]:
    """Rows whose prompts and replies have random lengths, without an end."""
    random = np.random.default_rng([seed, _LENGTHS])
    ranges = (options.prompt_tokens, options.tokens)
    while True:
        prompt, reply = (int(random.integers(each.least, each.most, endpoint=True)) for each in ranges)
        yield TraceRow(None, prompt, reply)


def trace_rows(path: str, context: int, options: ServingOptions) -> tuple[list[TraceRow], int]:
    """The rows of a trace that a run may need, and the number of those left out: empty or longer than the context.

    Raises EdgeLLMError.
    """
    rows, left_out = list[TraceRow](), 0
    for row in islice(_from_zero(TraceReader(Path(path)).rows()), _MOST_ROWS):
        if options.replay and row.time_s is None:
            raise EdgeLLMError(f"{path} has no times: give rates instead of --serve trace")
        if options.replay and not options.requests and (row.time_s or 0) >= options.duration:
            break
        if row.prompt_tokens and row.tokens and row.prompt_tokens + row.tokens <= context:
            rows.append(row)
        else:
            left_out += 1
        if len(rows) == options.requests:
            break
    if not rows:
        raise EdgeLLMError(f"{path} has no request that fits the context of {context:,} tokens: give another trace")
    return rows, left_out


def _from_zero(rows: Iterator[TraceRow]) -> Iterator[TraceRow]:
    """The same rows; times count from the first one."""
    begin = None
    for row in rows:
        begin = row.time_s if begin is None else begin
        yield row if row.time_s is None or begin is None else replace(row, time_s=row.time_s - begin)


class RequestSource:
    """Makes requests. The same seed gives the same requests.

    Each run takes the next ones, so that no prompt is in a cache because an earlier run had it.
    """

    def __init__(self, prompts: PromptMaker, rows: Iterator[TraceRow], seed: int) -> None:
        self._prompts, self._rows = prompts, rows
        self._arrivals = np.random.default_rng([seed, _ARRIVALS])

    def take(self, n: int) -> list[LoadRequest]:
        """The next `n` requests, without arrivals."""
        return [self._request(row) for row in islice(self._rows, n)]

    def poisson(self, rate: float, n: int | None, duration: float) -> list[LoadRequest]:
        """The next requests, which arrive with `rate` per second: `n`, or those of `duration` seconds."""
        arrivals = poisson_arrivals(rate, self._arrivals)
        times = list(takewhile(lambda time: time < duration, arrivals) if n is None else islice(arrivals, n))
        return [replace(each, arrival_s=time) for each, time in zip(self.take(len(times)), times, strict=True)]

    def replay(self, rows: Sequence[TraceRow]) -> list[LoadRequest]:
        """The requests of a trace, which arrive at its times."""
        return [replace(self._request(row), arrival_s=row.time_s) for row in rows]

    def _request(self, row: TraceRow) -> LoadRequest:
        return LoadRequest(self._prompts.prompt(row.prompt_tokens, row.blocks), row.tokens)
