"""A target and a drafter that compute nothing: a clock tells how long they would take, and coins what is accepted."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Ids
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any, NamedTuple

import numpy as np
import pytest

from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment
from edgellm.generate.batching.arrivals import Arrivals
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.session import Session
from edgellm.generate.speculative_decoder import SpeculativeDecoder
from edgellm.options import GenerationOptions
from edgellm.sampling.gumbel import DrawKey, Drawn
from edgellm.sampling.philox import uniform
from edgellm.sampling.sampler import Sampler
from edgellm.speculation.acceptance import signal_of
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.drafter import ComputedDrafter, Draft, DraftRules
from edgellm.speculation.prompt_lookup import PromptLookup
from edgellm.speculation.rules import SameDraw
from support.stateless import Sequence

STEPS = {1: 34.0, 2: 35.7, 4: 42.0, 8: 62.0, 16: 87.0}
"""Milliseconds of a step by its rows: a 1.2B model on two Emerald Rapids cores."""

VOCAB = 8
_TIMED = (
    "generate.batching.executor",
    "generate.speculative_decoder",
    "speculation.computed_source",
    "speculation.drafting",
    "speculation.rounds",
)
"""Modules that take the time."""

Coin = Callable[[int], tuple[float, float]]
"""By the position of a token: the probability that its draft is right, and the draft's margin in nats."""


class Clock:
    """Seconds, which only those who compute let go by."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def step_seconds(rows: int, steps: Mapping[int, float] = STEPS) -> float:
    """Those of a step."""
    at = next((n for n in sorted(steps) if rows <= n), max(steps))
    return steps[at] / 1000 * max(1, rows / at)


class Engine:
    """Both the target and, with a `share` of its time, the drafter; it computes zeros. A longer text is read faster."""

    ctx, vocab, threads, max_rows, batch_invariant = 1 << 20, VOCAB, 1, 512, True

    def __init__(self, clock: Clock, share: float = 1.0) -> None:
        self._clock, self._share, self.rows = clock, share, list[int]()
        self.slowness: Callable[[int], float] = lambda rows: 1.0  # a factor on the time of a batch, by its rows

    def forward(self, segments: Ids[Segment[Any]]) -> Any:
        rows = sum(len(each.tokens) for each in segments)
        self.rows.append(rows)
        more = max(0, rows - 16) * 0.12 * step_seconds(1)
        self._clock.seconds += self._share * (step_seconds(min(rows, 16)) + more) * self.slowness(rows)
        for each in segments:
            each.sequence.tokens.extend(each.tokens)
        return np.zeros((sum(len(each.wanted) for each in segments), VOCAB), np.float32)

    def compute(self, segments: Ids[Segment[Any]]) -> Outputs:
        return Outputs(self.forward(segments), None, {})

    def evict(self) -> bool:
        return False

    def clear_stop(self) -> None:
        """Nothing was stopped."""

    stop = close = clear_stop


class Text(NamedTuple):
    """The token at each position, and the one that a wrong draft has."""

    seed: int

    def token(self, position: int) -> int:
        return int(uniform(self.seed, 1, position) * VOCAB)

    def wrong(self, position: int) -> int:
        return (self.token(position) + 1) % VOCAB


class CoinDrafter(ComputedDrafter):
    """Drafts tokens of a text that are right as coins say."""

    source = "model"

    def __init__(self, engine: Engine, text: Text, length: int, coin: Coin, draw: Callable[[], None]) -> None:
        self._draw = draw
        self.engine, self._text, self._coin, self._length = engine, text, coin, length
        self._sequence, self._read, self._is_windowed = Sequence(), 0, False
        self._draft = Draft([], [])

    def accept(self, token: int) -> None:
        self._length += 1

    def restart(self, ids: Ids[int]) -> None:
        self.pause()
        self._length = len(ids)

    def pause(self) -> None:
        self._read, self._is_windowed = 0, False

    def lag(self) -> int:
        return max(1, self._length - self._read)

    @property
    def skipped(self) -> int:
        return self._read if self._is_windowed else 0

    def begin(self, rules: DraftRules) -> None:
        self._draft = Draft([], [])
        self._read = min(self._read, self._length - 1)
        if rules.window and self.lag() > rules.window:
            self._read, self._is_windowed = self._length - rules.window, True

    def segment(self) -> Segment[Any]:
        rows = min(self._length + len(self._draft.tokens) - self._read, self.engine.max_rows)
        self._read += rows
        is_last = self._read == self._length + len(self._draft.tokens)
        return Segment(self._sequence, [0] * rows, [rows - 1] if is_last else [])

    def take(self, outputs: Outputs) -> Drawn | None:
        if outputs.logits is None or not len(outputs.logits):
            return None
        self._draw()
        position = self._length + len(self._draft.tokens)
        chance, margin = self._coin(position)
        is_right = uniform(self._text.seed, 2, position) < chance
        drawn = Drawn(self._text.token(position) if is_right else self._text.wrong(position), margin)
        self._draft.tokens.append(drawn.token)
        self._draft.signals.append(signal_of(drawn, np.zeros(VOCAB, np.float32)))
        return drawn

    def draft(self) -> Draft:
        return self._draft


class World:
    """A session whose target and drafter compute nothing. `share`: the time of a pass relative to a step."""

    def __init__(self, patch: pytest.MonkeyPatch, share: float, coin: Coin, prompt: int = 8) -> None:
        self.clock = Clock()
        for module in _TIMED:
            patch.setattr(f"edgellm.{module}.perf_counter", self.clock)
        # No time goes by between the steps of a reply: a batch waits for all, however late the machine lets them come.
        patch.setattr("edgellm.generate.batching.batcher.Arrivals", lambda: Arrivals(lambda: 0.0))
        self.target, self.drafter = Engine(self.clock), Engine(self.clock, share)
        self.session, self._prompt, self._coin = Session(self.target, "m"), prompt, coin  # type: ignore[arg-type]
        self.draw_s = 0.0  # seconds to draw a draft
        self._texts: dict[int, Text] = {}  # by the id of the sequence
        self.source = ComputedSource("d", self.drafter, self._new_drafter, share)
        self.session.drafts.source = self.source

    def _new_drafter(self, ids: Ids[int], sequence: Any) -> CoinDrafter:
        return CoinDrafter(self.drafter, self._texts[id(sequence)], len(ids), self._coin, self._draw)

    def _draw(self) -> None:
        self.clock.seconds += self.draw_s

    def reply(self, tokens: int, seed: int = 1, together: Barrier | None = None) -> list[float]:
        """Write a reply; returns the seconds before each of its tokens, and those of all.

        It begins when all replies have come that write `together`.
        """
        text, began, times = Text(seed), self.clock(), list[float]()
        rules = DraftRules(Sampler(GenerationOptions(), VOCAB), None, None, DrawKey(seed, 0), 0, SameDraw())
        with self.decoding(text, PromptLookup([])) as (decoder, cancel):
            if together:
                self.session._batcher.arrivals.give(cancel, 0.0)  # as its prompt did
                together.wait()
            for position in range(self._prompt, self._prompt + tokens):
                times.append(self.clock() - began)
                decoder.expect_draw(self.draw_s)  # a draw of the target is on no clock: it is there without drafts
                decoder.decode(text.token(position), (), lambda: rules)
        return [*times, self.clock() - began]

    @contextmanager
    def decoding(self, text: Text, lookup: PromptLookup) -> Iterator[tuple[SpeculativeDecoder, CancelFlag]]:
        """Begin a reply behind the prompt."""
        sequence, cancel = Sequence(), CancelFlag(self.target)  # type: ignore[arg-type]
        self._texts[id(sequence)] = text
        sequence.tokens = [0] * self._prompt
        decoding = SpeculativeDecoder(self.session, sequence, lookup, cancel)
        with self.session.decoding(cancel), decoding as decoder:
            decoder.begin_drafting()
            yield decoder, cancel

    def replies(self, count: int, tokens: int) -> float:
        """Write `count` replies at once; returns the seconds from the first to the last."""
        began, together = self.clock(), Barrier(count)
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda seed: self.reply(tokens, seed, together), range(count)))
        return self.clock() - began


def plain_seconds(tokens: int) -> float:
    """Those of a reply without drafts."""
    return tokens * step_seconds(1)


def closed_form(acceptance: float, share: float, drafts: int, replies: int = 1) -> float:
    """The speed of steps with `drafts` drafts for each reply, relative to plain steps."""
    tokens = sum(acceptance**i for i in range(drafts + 1))
    plain, step = (step_seconds(rows) for rows in (replies, replies * (1 + drafts)))
    return tokens * plain / (drafts * share * plain + step)


def best(acceptance: float, share: float, most: int, replies: int = 1) -> float:
    """The speed-up of the best number of drafts up to `most`, which all replies of a batch have."""
    return max(closed_form(acceptance, share, drafts, replies) for drafts in range(most + 1))
