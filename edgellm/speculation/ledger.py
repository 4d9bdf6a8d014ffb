"""What drafts cost and what they gained: so that they never make replies much slower."""

_CREDIT, _RATE = 2.0, 0.01
"""Trials may cost this many plain steps, and this share of all plain time."""

_MOST_GAIN = 20.0
"""Gains beyond this many steps do not count: they may be followed by as many losses."""


class Ledger:
    """The account of a session. The unit is the time of a step without drafts, a plain step of the same batch.

    A trial is a step with drafts that are not known to pay. So replies take at most 1 + _RATE times as long as without
    drafts, and _CREDIT steps of a session, and what one trial costs more than it was thought to.
    """

    def __init__(self) -> None:
        self._credit, self._lost, self._allowed = _CREDIT, 0.0, _CREDIT

    def add_step(self) -> None:
        """A token of a reply was computed, in a step that would be plain without drafts."""
        self._credit = min(_CREDIT, self._credit + _RATE)
        self._allowed += _RATE

    def allows(self) -> bool:
        """Whether drafts that are thought to pay may be computed: they did not cost more than allowed so far."""
        return self._lost <= self._allowed

    def allows_trial(self, cost: float) -> bool:
        """Whether a trial may cost that much. If it costs more than any may, it must wait for the whole credit."""
        return self.allows() and self._credit >= min(cost, _CREDIT)

    def spend(self, cost: float, is_trial: bool) -> None:
        """Drafts cost that much more than a plain step."""
        self._lost += cost
        self._credit -= cost * is_trial

    def gain(self, is_trial: bool) -> None:
        """A draft was accepted: a step less."""
        self._lost = max(self._lost - 1, -_MOST_GAIN)
        self._credit = min(_CREDIT, self._credit + is_trial)
