"""Draft policies for tests in which the time of steps on this machine has no effect."""

from collections.abc import Sequence as Ids

import numpy as np

from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.prompt_lookup import DraftTokens
from edgellm.speculation.step_plan import PLAIN, DraftPlan, PassCost
from edgellm.speculation.vocabularies import TokenMap


class AllDrafts(DraftPolicy):
    """A policy that computes every draft completely: those of a drafter, and without one those of prompt lookup."""

    def plan(self, lookup: DraftTokens, room: int, beside: int, cost: PassCost | None) -> DraftPlan:
        if cost:
            return DraftPlan(cost.source, room, replies=cost.replies, whole=True)
        return DraftPlan("lookup", len(lookup.tokens)) if lookup.tokens else PLAIN

    def goes_on(
        self, rate: float, rows: int, pass_seconds: float, chances: Ids[float], beyond: Ids[Ids[float]]
    ) -> bool:
        return True

    def kept(self, rate: float, rows: int, chances: Ids[float]) -> int:
        return len(chances)


class WindowedDrafts(AllDrafts):
    """Of a text that the drafter has not seen it reads only the last part, as long as more may not pay."""

    def plan(self, lookup: DraftTokens, room: int, beside: int, cost: PassCost | None) -> DraftPlan:
        return super().plan(lookup, room, beside, cost)._replace(whole=False)


class HalfOfDrafts(AllDrafts):
    """A step computes half of the drafts, rounded up."""

    def kept(self, rate: float, rows: int, chances: Ids[float]) -> int:
        return (len(chances) + 1) // 2


def same_tokens(vocab: int) -> TokenMap:
    """The map of two equal vocabularies."""
    return TokenMap("same", np.arange(vocab, dtype=np.int32), range(vocab), 0, vocab)
