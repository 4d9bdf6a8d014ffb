"""The draft policy of speculative decoding: from which source a step has drafts, and how many.

It compares tokens per second. For drafts of which the i-th is accepted with probability S_i (the product of the rates
up to it), of one reply and n replies that do the same,

    rate(k) = n (1 + S_1 + … + S_k) / (lag + k pass(n) + T(n (1 + k)))

with the measured time T of a step by its rows, that of a pass of the drafter, and that of the tokens of the text that
the drafter has not seen. Pass by pass the replies of a batch then ask whether to go on: maximizing tokens - rate * time
at the best rate maximizes tokens per second (renewal-reward; S. Ross, Introduction to Probability Models, section 7.4).

No step has more drafts than the account of the reply can lose (`edgellm.speculation.account`). Trials, computed drafts
that are not known to pay, are paid by the account of the session, too.
"""

import math
from collections.abc import Callable
from collections.abc import Sequence as Ids
from functools import lru_cache
from itertools import accumulate, takewhile
from operator import mul

from edgellm.engine.step_times import StepTimes
from edgellm.options import MAX_DRAFT
from edgellm.speculation.acceptance import Acceptance
from edgellm.speculation.account import Account
from edgellm.speculation.prompt_lookup import DraftTokens
from edgellm.speculation.sources import Source
from edgellm.speculation.step_plan import PLAIN, DraftPlan, PassCost

Times = Callable[[int], float | None]
"""Seconds of a step by its rows."""

_SPREAD = 128
"""The text that a drafter must read is taken to serve this many steps."""

_WHOLE_MARGIN = 1.5
"""A text is read whole if the account has this many times what that should cost: a reading of several steps must not be
given up because it takes a little longer."""


class DraftPolicy:
    """Chooses the drafts of one reply's steps. `times` are those of the session, `trials` is what trials may lose."""

    def __init__(self, times: StepTimes, acceptance: Acceptance, trials: Account) -> None:
        self._times, self._acceptance, self._trials, self._account = times, acceptance, trials, Account()

    def plan(self, lookup: DraftTokens, room: int, beside: int, cost: PassCost | None) -> DraftPlan:
        """The drafts of the next step, of up to `room`: those of `lookup`, computed ones at `cost`, or none.

        `beside` rows of other replies are computed in the same batch, and give a token each. There are no drafts until
        the time of any step is known.
        """
        found = self._plan_lookup(lookup, beside)
        if cost is None or room < 1 or not (plain := self._times.seconds(cost.replies)):
            return found
        computed = self._plan_computed(cost, room, plain)
        if computed.source is None:
            return self._try(cost, plain) if found.source is None else found
        before = self._times.seconds(beside + 1) or plain
        speed_up = found.rate * before / (beside + 1) if found.source else 1.0
        return computed if computed.rate * plain > speed_up * cost.replies else found

    def _plan_lookup(self, lookup: DraftTokens, beside: int) -> DraftPlan:
        rate, rows, available = self._acceptance.rate("lookup", lookup.matched), beside + 1, len(lookup.tokens)
        if not available or not self._times.seconds(rows):
            return PLAIN

        def tokens_per_second(drafts: int) -> float:
            seconds = self._times.wagered_seconds(rows + drafts)
            return (beside + sum(rate**i for i in range(drafts + 1))) / seconds if seconds else 0.0

        # Of equally fast lengths the shortest. None may come out dearer than nothing: other threads record times.
        left = max(0.0, self._account.left) * self._unit
        lengths = sorted(min(drafts, available) for drafts in _lengths(rows, MAX_DRAFT))
        most = max((n for n in lengths if not n or self._longer_seconds(rows, n) <= left), key=tokens_per_second)
        return DraftPlan("lookup", most, tokens_per_second(most)) if most else PLAIN

    def _plan_computed(self, cost: PassCost, room: int, plain: float) -> DraftPlan:
        """The drafts of a computed source, if it is known that they pay."""
        if not self._acceptance.has_proved(cost.source) or not (room := self._affordable(cost, room)):
            return PLAIN
        if self._best_rate(cost, room, self._times.seconds) * plain <= cost.replies:
            return PLAIN
        rate = self._best_rate(cost, room, self._times.wagered_seconds)
        if cost.whole_seconds is not None and 2 * cost.whole_seconds < _SPREAD * (plain / cost.replies - 1 / rate):
            of_all = self._affordable(cost._replace(lag_seconds=_WHOLE_MARGIN * cost.whole_seconds), room)
            if of_all:
                return DraftPlan(cost.source, of_all, rate, cost.replies, cost.pass_seconds, whole=True)
        return DraftPlan(cost.source, room, rate, cost.replies, cost.pass_seconds)

    def _affordable(self, cost: PassCost, room: int) -> int:
        """The most drafts, up to `room`, that the account of the reply can lose."""
        lost = (self._lost_seconds(cost, drafts) for drafts in range(1, room + 1))
        return sum(1 for _ in takewhile(lambda seconds: seconds <= self._account.left * self._unit, lost))

    def _lost_seconds(self, cost: PassCost, drafts: int) -> float:
        """The seconds that a step with `drafts` drafts costs a reply beyond a plain step, if no draft is accepted."""
        longer = self._longer_seconds(cost.replies, drafts * cost.replies)
        return cost.lag_seconds + (drafts * cost.pass_seconds + longer) / cost.replies

    def _try(self, cost: PassCost, plain: float) -> DraftPlan:
        """One draft that is not known to pay, if both accounts have all that it costs."""
        spent = self._lost_seconds(cost, 1) / self._unit
        if min(self._account.left, self._trials.left) < spent:
            return PLAIN
        self._account.spend(spent)
        self._trials.spend(spent)  # at once, as replies of other threads may ask before the trial
        rate = cost.replies / plain
        return DraftPlan(cost.source, 1, rate, cost.replies, cost.pass_seconds, is_trial=True, spent=spent)

    def _best_rate(self, cost: PassCost, room: int, seconds: Times) -> float:
        """The most tokens per second with up to `room` drafts; the text that must be read serves `_SPREAD` steps."""
        mean, replies = self._acceptance.mean(cost.source), cost.replies
        lag, tokens, chance = replies * cost.lag_seconds / _SPREAD, 1.0, 1.0
        best = replies / (seconds(replies) or math.inf)
        for drafts in range(1, room + 1):
            chance *= mean
            tokens += chance
            time = (seconds(replies * (1 + drafts)) or math.inf) + drafts * cost.pass_seconds + lag
            best = max(best, replies * tokens / time)
        return best

    def goes_on(
        self, rate: float, rows: int, pass_seconds: float, chances: Ids[float], beyond: Ids[Ids[float]]
    ) -> bool:
        """Whether another pass is worth its time, for replies of which a step has `rows` rows without drafts.

        `chances` are those of their drafts so far, `beyond` the expected ones of each further pass. A second is worth
        `rate` tokens.
        """
        now, found = self._value(rate, rows, chances)[0], list(chances)
        for passes, more in enumerate(beyond, 1):
            found += more
            if self._value(rate, rows, found)[0] - rate * pass_seconds * passes > now:
                return True
        return False

    def kept(self, rate: float, rows: int, chances: Ids[float]) -> int:
        """How many drafts a step computes, the likeliest first, so that they give the most tokens for its time."""
        return self._value(rate, rows, chances)[1]

    def _value(self, rate: float, rows: int, chances: Ids[float]) -> tuple[float, int]:
        """The most tokens that drafts give less what its time is worth, and how many of them a step computes then."""
        sums = list(accumulate(sorted(chances, reverse=True), initial=0.0))
        last = len(chances)
        value, fewest = max(
            (sums[n] - rate * (self._times.wagered_seconds(rows + n) or 0.0), -n) for n in _lengths(rows, last)
        )
        return value, -fewest

    def mean(self, plan: DraftPlan) -> float:
        """The probability that a draft is accepted whose signal is not known yet, if all before it are."""
        return self._acceptance.mean(plan.source or "model")

    def chances(self, plan: DraftPlan, signals: Ids[int]) -> list[float]:
        """The probabilities that drafts with `signals` are accepted, each with all before it."""
        source = plan.source or "model"
        return list(accumulate((self._acceptance.rate(source, signal) for signal in signals), mul))

    def _longer_seconds(self, rows: int, drafts: int) -> float:
        """The seconds that `drafts` more rows add to a batch of `rows` rows, at least 0."""
        return max(0.0, (self._times.doubted_seconds(rows + drafts) or 0.0) - (self._times.seconds(rows) or 0.0))

    def settle(self, plan: DraftPlan, seconds: float) -> None:
        """The drafts of a step cost `seconds`: the reply's share of passes, and of the time of their rows."""
        cost = seconds / self._unit - plan.spent
        self._account.spend(cost)
        if plan.is_trial:
            self._trials.spend(cost)

    def add_token(self, replies: int) -> None:
        """The reply got a token, while `replies` replies were decoded at once."""
        plain = self._plain(replies)
        self._account.add_token(plain)
        self._trials.add_token(plain)

    def accept(self, plan: DraftPlan, replies: int) -> None:
        """The target accepted a draft of `plan`, while `replies` replies were decoded at once."""
        plain = self._plain(replies)
        self._account.gain(plain)
        if plan.is_trial:
            self._trials.gain(plain)

    @property
    def _unit(self) -> float:
        return self._times.seconds(1) or 1.0

    def _plain(self, replies: int) -> float:
        """A reply's share of a step without drafts, in steps of one row."""
        return (self._times.seconds(replies) or 0.0) / replies / self._unit

    def record(self, source: Source, signal: int, accepted: bool) -> None:
        """A draft was accepted or rejected; all before it were accepted."""
        self._acceptance.record(source, signal, accepted)


@lru_cache(256)
def _lengths(rows: int, most: int) -> frozenset[int]:
    """The numbers of drafts to compare: with `rows` other rows they fill a batch of a class of `StepTimes`."""
    classes = (2**i - rows for i in range((rows + most).bit_length()))
    return frozenset({0, most, *(drafts for drafts in classes if 0 < drafts < most)})
