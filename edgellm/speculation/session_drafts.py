"""What the replies of a session share of their drafts."""

from edgellm.engine.step_times import StepTimes
from edgellm.options import MAX_DRAFT
from edgellm.speculation.acceptance import Acceptance
from edgellm.speculation.account import MOST_TRIALS, Account
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.rules import DraftRule, SameDraw


class SessionDrafts:
    """Acceptance, costs, and the computed source of a session, None without one.

    `times` are those of the target's steps, `trials` is what drafts that are not known to pay may lose. `source` may be
    set at any time; replies that began before use it, too. A step has at most `most` drafts, 0 for none at all, and
    `rule` says how they are accepted. With `are_asked_for` there are drafts also where logits depend on the batch.
    """

    def __init__(self, times: StepTimes) -> None:
        self.times, self.acceptance, self.trials = times, Acceptance(), Account(MOST_TRIALS)
        self.source: ComputedSource | None = None
        self.are_asked_for = False
        self.most = MAX_DRAFT
        self.rule: DraftRule = SameDraw()
