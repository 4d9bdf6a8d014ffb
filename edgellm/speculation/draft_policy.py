"""The draft policy of speculative decoding: from which source a step has drafts, and how many.

It compares tokens per second. For drafts of which the i-th is accepted with probability S_i (the product of the rates
up to it), of one reply and n replies that do the same,

    rate(k) = n (1 + S_1 + … + S_k) / (lag + k pass(n) + T(n (1 + k)))

with the measured time T of a step by its rows, that of a pass of the drafter, and that of the tokens of the text that
the drafter has not seen. Pass by pass it then asks whether to go on: maximizing tokens - rate * time at the best rate
maximizes tokens per second (renewal-reward; S. Ross, Introduction to Probability Models, section 7.4).
"""

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Ids
from itertools import accumulate, repeat
from math import inf
from operator import mul
from typing import NamedTuple

from edgellm.engine.limits import MAX_DRAFT
from edgellm.engine.step_times import StepTimes
from edgellm.speculation.acceptance import Acceptance
from edgellm.speculation.drafter import Source
from edgellm.speculation.ledger import Ledger
from edgellm.speculation.prompt_lookup import DraftTokens

_SPREAD = 128
"""The text that a drafter must read is taken to serve this many steps."""

Times = Callable[[int], float | None]
"""Seconds of a step by its rows."""


class DraftPlan(NamedTuple):
    """A step with up to `most` drafts of a source, None for a plain step; it gives `rate` tokens per second.

    For a computed source: `replies` have as many at once; a pass takes `pass_seconds` for all of them. Up to
    `lag_seconds` may be spent on tokens of the text. `is_trial`: the drafts are not known to pay.
    """

    source: Source | None
    most: int
    rate: float = 0.0
    replies: int = 1
    pass_seconds: float = 0.0
    lag_seconds: float = 0.0
    is_trial: bool = False


PLAIN = DraftPlan(None, 0)
"""A step without drafts."""


class PassCost(NamedTuple):
    """What a computed source costs: seconds of a pass for `replies`, and those of the text that it must read before."""

    source: Source
    replies: int
    pass_seconds: float
    lag_seconds: float


class DraftPolicy:
    """Chooses the drafts of one reply's steps. `times` and `ledger` are those of the session."""

    def __init__(self, times: StepTimes, acceptance: Acceptance, ledger: Ledger) -> None:
        self._times, self._acceptance, self._ledger = times, acceptance, ledger

    def plan(self, lookup: DraftTokens, room: int, beside: int, cost: PassCost | None) -> DraftPlan:
        """The drafts of the next step, of up to `room`: those of `lookup`, computed ones at `cost`, or none.

        `beside` rows of other replies are computed in the same batch, and give a token each. There are no drafts until
        the time of any step is known.
        """
        found = self._plan_lookup(lookup, beside)
        if cost is None or room < 1 or not (plain := self._times.seconds(cost.replies)):
            return found
        computed = self._plan_computed(cost, room, plain)
        plain_rate = cost.replies / plain
        if computed.is_trial:
            return computed if found.source is None else found
        before = self._times.seconds(beside + 1) or plain
        speed_up = found.rate * before / (beside + 1) if found.source else 1.0
        return computed if computed.source and computed.rate > speed_up * plain_rate else found

    def _plan_lookup(self, lookup: DraftTokens, beside: int) -> DraftPlan:
        rate, rows, available = self._acceptance.rate("lookup", lookup.matched), beside + 1, len(lookup.tokens)

        def tokens_per_second(drafts: int) -> float:
            seconds = self._times.wagered_seconds(rows + drafts)
            return (beside + sum(rate**i for i in range(drafts + 1))) / seconds if seconds else 0.0

        # Of equally fast lengths the shortest.
        most = max(sorted(min(drafts, available) for drafts in _lengths(rows)), key=tokens_per_second)
        return DraftPlan("lookup", most, tokens_per_second(most)) if most else PLAIN

    def _plan_computed(self, cost: PassCost, room: int, plain: float) -> DraftPlan:
        """The drafts of a computed source. If it is not known that any pay, one may be tried; else PLAIN."""
        replies, pays = cost.replies, False
        if self._acceptance.has_proved(cost.source) and self._ledger.allows():
            most = self._best_length(cost, room, self._times.seconds)
            pays = self._rate(cost, most, self._times.seconds) > replies / plain
        if pays:
            most = self._best_length(cost, room, self._times.wagered_seconds)
            rate = self._rate(cost, most, self._times.wagered_seconds)
            return DraftPlan(cost.source, most, rate, replies, cost.pass_seconds, cost.lag_seconds) if most else PLAIN
        longer = (self._times.seconds(2 * replies) or plain) - plain
        if not self._ledger.allows_trial((cost.lag_seconds + cost.pass_seconds + longer) / plain):
            return PLAIN
        return DraftPlan(cost.source, 1, replies / plain, replies, cost.pass_seconds, cost.lag_seconds, True)

    def _best_length(self, cost: PassCost, room: int, seconds: Times) -> int:
        return max(range(room + 1), key=lambda drafts: self._rate(cost, drafts, seconds))

    def _rate(self, cost: PassCost, drafts: int, seconds: Times) -> float:
        """Tokens per second with that many drafts; the text that must be read counts for `_SPREAD` steps."""
        tokens = cost.replies * _tokens(repeat(self._acceptance.mean(cost.source), drafts))
        time = (seconds(cost.replies * (1 + drafts)) or 0.0) + drafts * cost.pass_seconds
        return tokens / (time + (cost.lag_seconds / _SPREAD if drafts else 0.0))

    def goes_on(self, plan: DraftPlan, signals: Ids[int], most: int) -> bool:
        """Whether a pass for another draft is worth its time, behind those with `signals`, of up to `most`."""
        drafted, rate = len(signals), plan.rate
        chances = [1.0, *self.chances(plan, signals)]
        while len(chances) <= most:
            chances.append(chances[-1] * self._acceptance.mean(plan.source or "model"))
        values = [
            plan.replies * tokens - rate * (self._times.wagered_seconds(plan.replies * (1 + drafts)) or 0.0)
            for drafts, tokens in enumerate(accumulate(chances))
        ]
        passes = (rate * plan.pass_seconds * each for each in range(1, most + 1))
        beyond = (value - cost for value, cost in zip(values[drafted + 1 :], passes, strict=False))
        return max(beyond, default=-inf) > max(values[: drafted + 1])

    def chances(self, plan: DraftPlan, signals: Ids[int]) -> list[float]:
        """The probabilities that drafts with `signals` are accepted, each with all before it."""
        source = plan.source or "model"
        return list(accumulate((self._acceptance.rate(source, signal) for signal in signals), mul))

    def settle(self, plan: DraftPlan, computed: int, seconds: float) -> None:
        """A step had `computed` of its drafts, which took a drafter `seconds` for this reply alone."""
        plain = self._times.seconds(plan.replies)
        if plain:
            longer = (self._times.seconds(plan.replies * (1 + computed)) or plain) - plain
            self._ledger.spend((plan.replies * seconds + longer) / plain, plan.is_trial)

    def record(self, source: Source, signal: int, accepted: bool) -> None:
        """A draft was accepted or rejected; all before it were accepted."""
        self._acceptance.record(source, signal, accepted)


def _tokens(rates: Iterable[float]) -> float:
    """The expected tokens of a step whose drafts are accepted with `rates`."""
    return sum(accumulate(rates, mul, initial=1.0))


def _lengths(rows: int) -> set[int]:
    """The numbers of drafts to compare: with `rows` other rows they fill a batch of a class of `StepTimes`."""
    classes = (2**i - rows for i in range((rows + MAX_DRAFT).bit_length()))
    return {0, MAX_DRAFT, *(drafts for drafts in classes if 0 < drafts < MAX_DRAFT)}
