"""Rules by which the target model accepts drafts. docs/speculation.md has the proofs.

Both write text with the distribution of the target model. With `SameDraw` the text is a function of the seed, whatever
the drafts are; `Rejection` accepts more of them, and the text depends on them.
"""

from typing import NamedTuple, Protocol

import numpy as np

from edgellm.sampling.gumbel import PROPOSAL, RESIDUAL, DrawKey, Drawn, gumbel_draw
from edgellm.sampling.philox import uniform
from edgellm.sampling.sampler import Distribution

_ROUNDING = 1e-12
"""A residual with less probability than this is one of rounding errors."""


class Proposal(NamedTuple):
    """A draft that the target model judges; `q` is what it was drawn from, None if it was not drawn."""

    token: int
    q: Distribution | None


class DraftRule(Protocol):
    """How a drafter draws its tokens, and how the target model draws the text.

    `may_trim`: a draft may be dropped because of its own value or margin without changing the distribution of the text.
    """

    may_trim: bool

    def propose(self, q: Distribution, key: DrawKey, position: int) -> Drawn:
        """Draw a draft of the token at `position` (the number of tokens before it) from the drafter's `q`."""

    def choose(self, p: Distribution, proposal: Proposal | None, key: DrawKey, position: int) -> int:
        """The token of the text at `position`, of the target's distribution `p`. It equals an accepted proposal."""


class SameDraw:
    """Both draw with the same random numbers; a draft is accepted if it is the token that the target draws."""

    may_trim = True

    def propose(self, q: Distribution, key: DrawKey, position: int) -> Drawn:
        """See `DraftRule`. The margin tells how surely the target draws the same."""
        return gumbel_draw(q, key, position)

    def choose(self, p: Distribution, proposal: Proposal | None, key: DrawKey, position: int) -> int:
        """See `DraftRule`. The proposal changes nothing."""
        return gumbel_draw(p, key, position).token


class Rejection:
    """Speculative sampling (arXiv:2211.17192, 2302.01318): draft x is accepted with probability min(1, p_x / q_x).

    In place of a rejected one, the token is drawn from the residual, max(0, p - q) scaled to a sum of 1. It is exact
    only if a draft that was drawn is judged, whatever it is: so none may be dropped for its value. A draft that was not
    drawn is accepted if the target draws it, as with `SameDraw`: with the same probability, and it may be dropped.
    """

    may_trim = False

    def propose(self, q: Distribution, key: DrawKey, position: int) -> Drawn:
        """See `DraftRule`. The margin is that of the two likeliest tokens, whichever was drawn."""
        drawn = gumbel_draw(q, key, position, PROPOSAL)
        first, second = (*q.probabilities[:2], 0.0)[:2]
        return drawn._replace(margin=float(np.log(first) - np.log(second)) if second else np.inf)

    def choose(self, p: Distribution, proposal: Proposal | None, key: DrawKey, position: int) -> int:
        """See `DraftRule`."""
        if proposal is None or proposal.q is None:
            return gumbel_draw(p, key, position).token
        token, q = proposal.token, proposal.q
        if uniform(key.seed, key.sequence, position) * _probability(q, token) < _probability(p, token):
            return token
        return gumbel_draw(_residual(p, q), key, position, RESIDUAL).token


def _probability(distribution: Distribution, token: int) -> float:
    return float(distribution.probabilities[distribution.ids == token].sum())


def _residual(p: Distribution, q: Distribution) -> Distribution:
    """max(0, p - q), scaled to a sum of 1; `p` if it is 0 but for rounding."""
    drafted = np.zeros(max(p.ids.max(), q.ids.max()) + 1)
    drafted[q.ids] = q.probabilities
    excess = np.maximum(p.probabilities - drafted[p.ids], 0)
    if (total := excess.sum()) < _ROUNDING:
        return p
    order = np.argsort(-excess, kind="stable")[: np.count_nonzero(excess)]
    return Distribution(p.ids[order], excess[order] / total)
