"""The computed drafts of one reply, from round to round."""

from time import perf_counter
from typing import Any

import numpy as np

from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment, Stopped
from edgellm.errors import EdgeLLMError, NoMemoryError
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.drafter import ComputedDrafter, Draft, DraftRules
from edgellm.speculation.draw_time import DrawTime
from edgellm.speculation.step_plan import DraftPlan, PassCost

_WINDOW = 16
"""A drafter that lags behind more tokens than these reads only as many, until it is worth to read all."""

_MEMORY_TOKENS = 64
"""Tokens of the text before a drafter that found no memory asks again, unless another one left its memory before."""

_DECAY = 0.998
"""Factor on what was measured for each token without a pass: in the end one is tried again, as times may have changed.
(The account of the reply pays what it takes then.)"""

_MOST_LAG_S = 0.1
"""Seconds in one round after which a drafter reads no more of the text: it goes on in the next one."""


class Drafting:
    """What a drafter computes for a reply before a step of the target, as the policy says.

    `draft` are those of the last round, of which the step computes the first `kept`. `seconds` are the reply's share of
    its `passes` passes, and those of its draws. An error ends no reply: drafts end, and a warning says why.

    `works`, `accept`, `expect_draw`, `cost` and `prepare` are called in the thread of the reply. All else is called
    within the turn of the target's engine, perhaps in the thread of another reply, while that of this one waits.
    """

    def __init__(self, source: ComputedSource, drafter: ComputedDrafter, policy: DraftPolicy) -> None:
        self.source, self.drafter, self.policy = source, drafter, policy
        self.draft, self.kept, self.passes, self.seconds = Draft([], []), 0, 0, 0.0
        self._most = 0  # drafts of the round
        self._draw_time, self._rules_s = DrawTime(), 0.0  # the latter: seconds to get the rules of the round
        self._unused = 0  # tokens since the last pass
        self._waits, self._freed = 0, 0  # tokens until it asks for memory again; `source.freed` when it found none
        self._plan: DraftPlan | None = None
        self._rules: DraftRules | None = None

    @property
    def works(self) -> bool:
        """Whether it can draft."""
        return self.source.works and not (self._waits and self._freed == self.source.freed)

    @property
    def plan(self) -> DraftPlan:
        """The plan of the round."""
        assert self._plan is not None, "`prepare` comes first"
        return self._plan

    def accept(self, token: int) -> None:
        """The text has a token more."""
        self.drafter.accept(token)
        self._waits, self._unused = max(0, self._waits - 1), self._unused + 1

    def expect_draw(self, seconds: float) -> None:
        """A draw of the target took `seconds`, as one of a draft is expected to, until some were measured."""
        self._draw_time.expect(seconds)

    def cost(self, replies: int, step_seconds: float) -> PassCost:
        """What passes for `replies` replies cost, where a step of the target for one takes `step_seconds`."""
        source, lag, decay = self.source, self.drafter.lag(), _DECAY**self._unused
        whole = lag + self.drafter.skipped
        lag_s, whole_s = (source.lag_seconds(n - 1, step_seconds) for n in (min(lag, _WINDOW), whole))
        seconds = source.pass_seconds(replies, step_seconds, decay) + replies * decay * self._draw_time.seconds
        return PassCost(self.drafter.source, replies, seconds, lag_s, whole_s if whole > _WINDOW else None)

    def prepare(self, plan: DraftPlan, rules: DraftRules, seconds: float) -> None:
        """The next step has drafts: up to `plan.most`, drawn by `rules`, which took `seconds` to get."""
        self._plan, self._rules, self._rules_s = plan, rules if plan.whole else rules._replace(window=_WINDOW), seconds
        self.draft, self.kept, self.passes, self.seconds = Draft([], []), 0, 0, seconds

    def begin(self, room: int) -> bool:
        """A round begins, for up to `room` drafts; False if it has none."""
        self._most, self.draft, self.kept = min(self.plan.most, room), Draft([], []), 0
        if not (self.works and self._rules and self._most > 0):
            return False
        try:
            if self.plan.whole and self.drafter.skipped:
                self.drafter.pause()
            self.drafter.begin(self._rules)
        except Exception as error:
            self.fail(error)
            return False
        return True

    def segment(self) -> Segment[Any] | None:
        """What the next pass computes; None if the round ends."""
        try:
            return self.drafter.segment()
        except Exception as error:
            self.fail(error)
            return None

    def take(self, outputs: Outputs, seconds: float) -> bool:
        """A pass took `seconds` for this reply; returns whether another one may follow."""
        began = perf_counter()
        draws = self._draw(outputs)
        draw_s = perf_counter() - began
        self.passes, self.seconds, self._unused = self.passes + 1, self.seconds + seconds + draw_s, 0
        if draws is None:
            return False
        if not draws:  # it computes tokens of the text
            return self.seconds < _MOST_LAG_S
        self._draw_time.record(draw_s + self._rules_s)
        self._rules_s = 0.0
        return len(self.draft.tokens) < self._most

    def _draw(self, outputs: Outputs) -> bool | None:
        """Draw a draft; returns whether there was one to draw, or None if none may follow."""
        try:
            if self.drafter.take(outputs) is None:
                return False
            self.draft = self.drafter.draft().first(self._most)  # text that a guide forces may be longer
            return True
        except Exception as error:
            is_wrong = outputs.logits is not None and np.isnan(outputs.logits).any()
            if is_wrong or not isinstance(error, EdgeLLMError):  # else no token may come next
                self.fail(error)
            return None

    @property
    def fixed(self) -> int:
        """How many drafts the step must compute, as the rule forbids to drop any."""
        return 0 if not self._rules or self._rules.rule.may_trim else len(self.draft.tokens)

    @property
    def chances(self) -> list[float]:
        """The probability of each draft behind the `fixed` ones that it is accepted."""
        return self.policy.chances(self.plan, self.draft.signals)[self.fixed :]

    @property
    def must_go_on(self) -> bool:
        """Whether it has a draft to try, or is reading the text."""
        return not self.draft.tokens and (self.plan.is_trial or self.passes > 0)

    def beyond(self, passes: int) -> list[float]:
        """The expected chance of the draft of each of the next `passes` passes."""
        last, mean = (self.policy.chances(self.plan, self.draft.signals) or [1.0])[-1], self.policy.mean(self.plan)
        return [last * mean ** (i + 1) for i in range(min(passes, self._most - len(self.draft.tokens)))]

    def fail(self, error: Exception) -> None:
        """An error ends the drafts of all replies; where memory is short, those of this one for `_MEMORY_TOKENS`.

        Drafts of the round that were drawn before are as good as others.
        """
        if isinstance(error, Stopped):
            raise error
        if isinstance(error, NoMemoryError | MemoryError):
            self.drafter.pause()
            self._waits, self._freed = _MEMORY_TOKENS, self.source.freed
        else:
            self.source.fail(error)

    def pause(self) -> None:
        """Leave the memory of the drafter to others, which may wait for it; what it needs is computed again."""
        self.drafter.pause()
        self.source.freed += 1

    def close(self) -> None:
        """The reply has ended: leave what the drafter holds to others, which may wait for it."""
        self.drafter.close()
        self.source.freed += 1
