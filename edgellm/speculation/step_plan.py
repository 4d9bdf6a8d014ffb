"""What the draft policy plans for a step, and what it must know of a source for that."""

from typing import NamedTuple

from edgellm.speculation.sources import Source


class DraftPlan(NamedTuple):
    """A step with up to `most` drafts of a source, None for a plain step; it gives `rate` tokens per second.

    For a computed source: `replies` have as many at once; a pass takes `pass_seconds` for all of them. `whole`: it
    reads all tokens of the text, not only the last ones. `is_trial`: the drafts are not known to pay, and the accounts
    have `spent` their expected cost, in steps of one row.
    """

    source: Source | None
    most: int
    rate: float = 0.0
    replies: int = 1
    pass_seconds: float = 0.0
    whole: bool = False
    is_trial: bool = False
    spent: float = 0.0


PLAIN = DraftPlan(None, 0)
"""A step without drafts."""


class PassCost(NamedTuple):
    """What a computed source costs: seconds of a pass for `replies`, and of the text that it must read before for one.

    `whole_seconds` are those of the whole text, if it would read only the last part of it.
    """

    source: Source
    replies: int
    pass_seconds: float
    lag_seconds: float
    whole_seconds: float | None = None
