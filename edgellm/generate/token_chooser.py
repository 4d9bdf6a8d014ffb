"""The choice of the next token: one that the guide forces, or one that the sampler draws."""

from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from edgellm.engine.protocol import Logits
from edgellm.generate.guided_stats import GuidedTally
from edgellm.guides.guide import Guide, Mask
from edgellm.sampling.gumbel import DrawKey
from edgellm.sampling.sampler import Distribution, Sampler, probability
from edgellm.speculation.drafter import DraftRules
from edgellm.speculation.rules import DraftRule, Proposal

if TYPE_CHECKING:
    from edgellm.guides.mask_ahead import MaskAhead  # imports what starts threads


class TokenChooser:
    """Chooses the tokens of one reply. `guide` is None for free text; `tally` counts what it excludes.

    `rule` says how drafts are accepted.

    Use it as a context manager: a guided reply has a thread that computes masks.
    """

    def __init__(
        self, sampler: Sampler, key: DrawKey, guide: Guide | None, tally: GuidedTally, rule: DraftRule
    ) -> None:
        self._sampler, self._key, self._guide, self._tally, self._rule = sampler, key, guide, tally, rule
        self._chosen = 0
        self._forced = deque[int]()
        self._masks: MaskAhead | None = None
        self._position = 0
        self._threads = ExitStack()

    @property
    def certain(self) -> list[int]:
        """The tokens that certainly follow the last one."""
        return list(self._forced)

    def read(self, prompt: Iterable[int]) -> None:
        """Count the tokens of the prompt for the penalties."""
        for token in prompt:
            self._sampler.accept(token)

    def choose(self, logits: Logits, position: int, proposal: Proposal | None = None) -> int:
        """The token that follows those before `position`, whose logits [vocab] these are. Raises EdgeLLMError.

        `proposal` is a draft that was drawn for it, and computed.
        """
        allowed: Mask | int | None
        if self._forced:
            allowed = token = self._forced.popleft()
        else:
            allowed = self._masks.take() if self._masks else None
            token = self._draw(self._sampler.apply(logits, allowed), position, proposal)
        self._sampler.accept(token)
        if self._guide:
            self._guide.accept(token)
            self._look_ahead(self._guide)
            if self._guide.begun and allowed is not None:
                self._tally.add(self._chosen, 1 - probability(logits, allowed))
        self._chosen, self._position = self._chosen + 1, position + 1
        return token

    def rules(self) -> DraftRules:
        """What a drafter needs to draw as this will, from the next token on, where none is certain.

        Raises EdgeLLMError if the guide allows none.
        """
        # Until `take` nothing may use the guide. There is no mask once it has ended.
        mask = self._masks.take() if self._masks and self._guide and not self._guide.ended else None
        guide = self._guide.fork() if self._guide else None
        return DraftRules(self._sampler.fork(), guide, mask, self._key, self._position, self._rule)

    def _draw(self, distribution: Distribution, position: int, proposal: Proposal | None) -> int:
        return self._rule.choose(distribution, proposal, self._key, position)

    def _look_ahead(self, guide: Guide) -> None:
        """Ask the guide what is certain; if nothing is, begin to compute the next mask."""
        if self._forced or guide.ended:
            return
        self._forced.extend(guide.forced())
        if not self._forced and self._masks:
            self._masks.start()

    def __enter__(self) -> Self:
        if self._guide:
            from edgellm.guides.mask_ahead import MaskAhead

            self._masks = self._threads.enter_context(MaskAhead(self._guide))
            self._look_ahead(self._guide)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._threads.close()
