"""A draft policy for tests in which the time of steps on this machine has no effect."""

from collections.abc import Sequence as Ids

from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.prompt_lookup import DraftTokens
from edgellm.speculation.step_plan import PLAIN, DraftPlan, PassCost


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
