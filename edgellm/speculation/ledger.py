"""What drafts cost and what they gained: so that they never make replies much slower."""

_CREDIT, _RATE = 2.0, 0.01
"""Trials may cost this many plain steps, and this share of all plain time."""

SPREAD = 128
"""The text that a drafter must read is taken to serve this many steps."""

_MOST_LOSS = 8.0
"""The steps that drafts which are thought to pay may cost beyond those of trials: a round of which nothing is accepted
costs a batch of eight replies a step."""

_MOST_GAIN = 20.0
"""Gains beyond this many steps do not count: they may be followed by as many losses."""


class Ledger:
    """The account of a session. The unit is the time of a step of one row; of a batch, each reply has its share.

    A trial is a step with drafts that are not known to pay. Trials that gain nothing cost a session _RATE of the time
    of its tokens, and _CREDIT steps. Drafts that are thought to pay, and do not, cost _MOST_LOSS more.
    """

    def __init__(self) -> None:
        self._credit, self._lost, self._allowed, self._invested = _CREDIT, 0.0, _CREDIT, 0.0

    def add_token(self, plain: float) -> None:
        """A reply got a token, which would have taken it `plain` without drafts."""
        self._credit = min(_CREDIT, self._credit + _RATE * plain)
        self._allowed += _RATE * plain
        due = self._invested * min(1.0, plain / SPREAD)
        self._lost, self._invested = self._lost + due, self._invested - due

    def allows(self) -> bool:
        """Whether drafts that are thought to pay may be computed: they have not cost much more than they gained."""
        return self._lost <= self._allowed + _MOST_LOSS

    def try_for(self, cost: float) -> bool:
        """Whether a trial may cost that much, which is then spent. One of more than any may must wait for the whole."""
        if self._credit < min(cost, _CREDIT):
            return False
        self.spend(cost, is_trial=True)  # at once, as replies of other threads may ask before the trial
        return True

    def spend(self, cost: float, is_trial: bool) -> None:
        """Drafts of a step cost that much more than none."""
        self._lost += cost
        self._credit -= cost * is_trial

    def invest(self, cost: float) -> None:
        """A text was read for drafts that pay: it costs the steps that follow their share, not this one alone."""
        self._invested += cost

    def gain(self, plain: float, is_trial: bool) -> None:
        """A draft was accepted: `plain` less."""
        self._lost = max(self._lost - plain, -_MOST_GAIN)
        self._credit = min(_CREDIT, self._credit + plain * is_trial)
