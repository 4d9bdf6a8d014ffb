"""How many steps drafts may lose, so that they never make a reply much slower."""

_RATE, _CREDIT = 0.01, 2.0
"""A reply may lose `_RATE` of its plain time by drafts, and `_CREDIT` steps at once."""

_MOST_RATE, _SHORTEST = 0.028, 32
"""A reply of `_SHORTEST` tokens or more loses at most `_MOST_RATE` of its plain time: it is at least 1 / 1.028 = 0.973
times as fast as without drafts. The account has the share of `_SHORTEST` tokens from the first token on, so that drafts
that pay begin at once."""

_MOST_LEFT = 64.0
"""No reply has more steps left than these: what was gained, or not spent, is no leave to lose for ever."""

MOST_TRIALS = 4.0
"""Nor has a session more steps for drafts that are not known to pay."""

_MOST_DEBT = 1.0
"""No account owes more steps: the first pass of a drafter may read its weights from a disk, for a second."""


class Account:
    """Steps that drafts may lose, at `most` at once: shares of plain time, and what they gained.

    The unit is the time of a step of one row; a reply counts its share of a batch. The caller of `spend` compares the
    expected cost with `left` before. So a debt comes only from a cost above the expected one, and it has a bound.
    """

    def __init__(self, most: float = _MOST_LEFT) -> None:
        self.left, self._most, self._credit, self._tokens = 0.0, most, _CREDIT, 0

    def add_token(self, plain: float) -> None:
        """A reply got a token, which would have taken it `plain` without drafts; 0, if that is not known yet."""
        self._tokens += plain > 0
        counted = _SHORTEST if self._tokens == 1 else self._tokens > _SHORTEST  # the first one counts for all of these
        first = min(self._credit, (_MOST_RATE - _RATE) * plain * counted)
        self._credit -= first
        self.gain(_RATE * plain * counted + first)

    def spend(self, cost: float) -> None:
        """Drafts of a step cost that much more than none; less than 0, if they cost less than was spent before."""
        self.gain(max(-cost, min(0.0, -_MOST_DEBT - self.left)))

    def gain(self, plain: float) -> None:
        """A draft was accepted: `plain` less."""
        self.left = min(self.left + plain, self._most)
