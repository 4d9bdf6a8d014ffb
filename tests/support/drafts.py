"""A draft policy for tests in which the time of steps on this machine has no effect."""

from edgellm.speculation.draft_policy import DraftPolicy


class AllDrafts(DraftPolicy):
    """A policy that computes every draft completely."""

    def draft_length(self, available: int, matched: int, beside: int = 0) -> int:
        return available
