"""The protocol of drafters: what proposes the tokens that a step of the target model computes.

A drafter belongs to one reply. The target model judges each of its tokens (`edgellm.speculation.rules`): by the default
rule it never changes the text, by the other one never the distribution of the text. A drafter computes one token a pass
on an engine; passes of several replies share a batch of that engine, and are computed within the turn of the target's.
Prompt lookup (`edgellm.speculation.prompt_lookup`) computes nothing, and is no drafter.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence as Ids
from typing import Any, NamedTuple, Protocol

from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment
from edgellm.guides.guide import Guide, Mask
from edgellm.sampling.gumbel import DrawKey, Drawn
from edgellm.sampling.sampler import Distribution, Sampler
from edgellm.speculation.rules import DraftRule
from edgellm.speculation.sources import Source


class Draft(NamedTuple):
    """Tokens that may follow the text. `signals` are what their acceptance is learnt by, see `Acceptance`."""

    tokens: list[int]
    signals: list[int]
    distributions: list[Distribution] | None = None
    """What each token was drawn from; None if that is not known."""

    def first(self, count: int) -> "Draft":
        """The first `count` of them, or all."""
        return Draft(self.tokens[:count], self.signals[:count], self.distributions and self.distributions[:count])


class DraftRules(NamedTuple):
    """What a drafter needs in order to draw as the target will, from the token after the text on.

    `sampler` and `guide` are forks: they follow the drafts. `first_mask` is the mask of the first token, later ones are
    those of `guide`; None for free text. `position` is the number of tokens before the first draft. A drafter that
    lags behind more than `window` tokens may begin anew with the last ones of the text alone; None: it must not.
    """

    sampler: Sampler
    guide: Guide | None
    first_mask: Mask | None
    key: DrawKey
    position: int
    rule: DraftRule
    window: int | None = None


class DraftEngine(Protocol):
    """The engine of a drafter, on the threads of the target's, whose `stop` ends its batches, too. For one thread."""

    max_rows: int

    def compute(self, segments: Ids[Segment[Any]]) -> Outputs:
        """Compute up to `max_rows` rows, of different sequences. Raises Stopped and EdgeLLMError."""

    def evict(self) -> bool:
        """Free what was used least recently of its prefix cache; False if there is nothing that no one uses."""


class ComputedDrafter(ABC):
    """Proposes tokens of one reply. It computes one a pass: in a round of passes `begin`, then `segment` and `take`.

    It is made within the turn of the target's engine. `accept`, `restart`, `lag` and `skipped` are called by the thread
    of the reply, while the engine computes nothing of it; all else within the turn, perhaps in the thread of another.
    """

    source: Source
    engine: DraftEngine

    @abstractmethod
    def accept(self, token: int) -> None:
        """The text has a token more. It takes microseconds, and computes nothing."""

    @abstractmethod
    def restart(self, ids: Ids[int]) -> None:
        """The text is now `ids`, another prompt."""

    def close(self) -> None:  # noqa: B027 (most drafters hold no memory)
        """Leave what it holds to others."""

    @abstractmethod
    def lag(self) -> int:
        """How many tokens of the text it must compute before the first draft."""

    @property
    def skipped(self) -> int:
        """How many more it would compute if it began anew; 0 if it left none out for the window of its rules."""
        return 0

    @abstractmethod
    def begin(self, rules: DraftRules) -> None:
        """A round begins; drafts of the last one are dropped."""

    @abstractmethod
    def segment(self) -> Segment[Any] | None:
        """The rows of the next pass: tokens of the text that it lags behind, or the last draft. None: it cannot draft.

        If there are more rows than `engine.max_rows`, the pass has a part of them, and `take` returns None.
        """

    @abstractmethod
    def take(self, outputs: Outputs) -> Drawn | None:
        """Draw the token of a pass from the outputs of its rows; None if tokens of the text are left to compute."""

    @abstractmethod
    def draft(self) -> Draft:
        """The tokens of the round so far."""

    @abstractmethod
    def pause(self) -> None:
        """Free its memory; what it needs is computed again."""
