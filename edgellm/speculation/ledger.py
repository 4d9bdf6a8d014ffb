"""What drafts cost and what they gained: so that they never make replies much slower."""

_CREDIT, _RATE = 2.0, 0.01
"""Drafts may cost this many plain steps before they gained any, and this share of all plain time."""

SPREAD = 128
"""The text that a drafter must read is taken to serve this many steps."""

_MOST_LOSS = 8.0
"""The steps that drafts which are thought to pay may cost beyond those of trials: a round of which nothing is accepted
costs a batch of eight replies a step."""

_MOST_LEFT = 20.0
"""No account has more steps left than these: what was gained, or not spent, is no leave to lose for ever."""

_MOST_DEBT = 2.0
"""Nor does an account owe more: the first pass of a drafter may read its weights from a disk, for a second."""


class Account:
    """How many steps drafts may lose: at first `left`, then a share of all plain time, and what they gained.

    The unit is the time of a step of one row; of a batch, each reply has its share.
    """

    def __init__(self, left: float = _CREDIT) -> None:
        self.left, self._invested = left, 0.0

    def add_token(self, plain: float) -> None:
        """A reply got a token, which would have taken it `plain` without drafts."""
        due = self._invested * min(1.0, plain / SPREAD)
        self._invested -= due
        self.gain(_RATE * plain - due)

    def spend(self, cost: float) -> None:
        """Drafts of a step cost that much more than none."""
        self.gain(-min(cost, _payable(self.left)))

    def gain(self, plain: float) -> None:
        """A draft was accepted: `plain` less."""
        self.left = min(self.left + plain, _MOST_LEFT)

    def invest(self, cost: float) -> None:
        """A text was read for drafts that pay: it costs the steps that follow their share, not this one alone."""
        self._invested += cost


class Ledger:
    """What the computed drafts of a session may cost. Each reply has an account of its own beside it.

    A trial is a step with drafts that are not known to pay. Trials that gain nothing cost a session _RATE of the time
    of its tokens, and _CREDIT steps.
    """

    def __init__(self) -> None:
        self.account, self._credit = Account(_CREDIT + _MOST_LOSS), _CREDIT

    def add_token(self, plain: float) -> None:
        """See `Account`."""
        self.account.add_token(plain)
        self._credit = min(_CREDIT, self._credit + _RATE * plain)

    def try_for(self, cost: float) -> bool:
        """Whether a trial may cost that much, which is then spent. One of more than any may must wait for the whole."""
        if self._credit < min(cost, _CREDIT):
            return False
        self.spend(cost, is_trial=True)  # at once, as replies of other threads may ask before the trial
        return True

    def spend(self, cost: float, is_trial: bool) -> None:
        """See `Account`."""
        self.account.spend(cost)
        self._credit -= min(cost, _payable(self._credit)) * is_trial

    def gain(self, plain: float, is_trial: bool) -> None:
        """See `Account`."""
        self.account.gain(plain)
        self._credit = min(_CREDIT, self._credit + plain * is_trial)


def _payable(left: float) -> float:
    """The largest cost, in steps, that an account with `left` steps is charged at once."""
    return max(0.0, left + _MOST_DEBT)
