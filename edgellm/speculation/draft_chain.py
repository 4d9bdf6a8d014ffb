"""The drafts of one round, drawn as the target will draw its text."""

import numpy as np

from edgellm.engine.protocol import Logits
from edgellm.guides.guide import Mask
from edgellm.sampling.gumbel import Drawn
from edgellm.sampling.sampler import Distribution
from edgellm.speculation.acceptance import CERTAIN, signal_of
from edgellm.speculation.drafter import Draft, DraftRules


class DraftChain:
    """Draws tokens one after the other by `rules`; `draft` are those so far."""

    def __init__(self, rules: DraftRules) -> None:
        self.rules, self._distributions = rules, list[Distribution]()
        self.draft = Draft([], [], self._distributions)

    @property
    def has_ended(self) -> bool:
        """Whether nothing can follow the drafts."""
        return self.rules.guide is not None and self.rules.guide.ended

    def draw(self, logits: Logits) -> Drawn:
        """Append the token that the rule proposes. Raises EdgeLLMError where no token may come next."""
        rules, allowed = self.rules, self._allowed()
        scores = rules.sampler.scores(logits, allowed)
        distribution = rules.sampler.distribution(scores)
        drawn = rules.rule.propose(distribution, rules.key, rules.position + len(self.draft.tokens))
        # By the mask, which the target has, too: a drafter may know fewer tokens.
        is_certain = allowed is not None and np.count_nonzero(allowed) == 1
        self._append(drawn.token, CERTAIN if is_certain else signal_of(drawn, scores), distribution)
        return drawn

    def force(self) -> list[int]:
        """Append the tokens that the guide forces next, and return them."""
        forced = self.rules.guide.forced() if self.rules.guide else []
        for token in forced:
            self._append(token, CERTAIN, Distribution(np.array([token]), np.ones(1)))
        return forced

    def _allowed(self) -> Mask | None:
        if not self.draft.tokens:
            return self.rules.first_mask
        return self.rules.guide.allowed() if self.rules.guide else None

    def _append(self, token: int, signal: int, distribution: Distribution) -> None:
        self.rules.sampler.accept(token)
        if self.rules.guide:
            self.rules.guide.accept(token)
        self.draft.tokens.append(token)
        self.draft.signals.append(signal)
        self._distributions.append(distribution)
