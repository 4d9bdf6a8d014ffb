"""The choice of the next token: one that the guide forces, or one that the sampler draws."""

from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from edgellm.engine.protocol import Logits
from edgellm.generate.guided_stats import GuidedTally
from edgellm.guides.guide import Guide, Mask
from edgellm.sampling.gumbel import DrawKey, gumbel_draw
from edgellm.sampling.sampler import Distribution, Sampler, probability

if TYPE_CHECKING:
    from edgellm.guides.mask_ahead import MaskAhead  # imports what starts threads


class TokenChooser:
    """Chooses the tokens of one reply. `guide` is None for free text; `tally` counts what it excludes.

    Use it as a context manager: a guided reply has a thread that computes masks.
    """

    def __init__(self, sampler: Sampler, key: DrawKey, guide: Guide | None, tally: GuidedTally) -> None:
        self._sampler, self._key, self._guide, self._tally = sampler, key, guide, tally
        self._chosen = 0
        self._forced = deque[int]()
        self._masks: MaskAhead | None = None
        self._threads = ExitStack()

    @property
    def certain(self) -> list[int]:
        """The tokens that certainly follow the last one."""
        return list(self._forced)

    def read(self, prompt: Iterable[int]) -> None:
        """Count the tokens of the prompt for the penalties."""
        for token in prompt:
            self._sampler.accept(token)

    def choose(self, logits: Logits, position: int) -> int:
        """The token that follows those before `position`, whose logits [vocab] these are. Raises EdgeLLMError."""
        allowed: Mask | int | None
        if self._forced:
            allowed = token = self._forced.popleft()
        else:
            allowed = self._masks.take() if self._masks else None
            token = self._draw(self._sampler.apply(logits, allowed), position)
        self._sampler.accept(token)
        if self._guide:
            self._guide.accept(token)
            self._look_ahead(self._guide)
            if self._guide.begun and allowed is not None:
                self._tally.add(self._chosen, 1 - probability(logits, allowed))
        self._chosen += 1
        return token

    def _draw(self, distribution: Distribution, position: int) -> int:
        return gumbel_draw(distribution, self._key, position).token

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
