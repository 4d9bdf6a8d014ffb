"""Rules by which the target model accepts drafts."""

from typing import NamedTuple, Protocol

from edgellm.sampling.gumbel import DrawKey, Drawn
from edgellm.sampling.sampler import Distribution


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
