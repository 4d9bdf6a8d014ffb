"""Drafts of a draft model: a smaller model that reads the same text, on an engine of its own."""

from collections.abc import Sequence as Ids
from typing import Any, Protocol

from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment, Sequence
from edgellm.sampling.gumbel import Drawn
from edgellm.speculation.draft_chain import DraftChain
from edgellm.speculation.drafter import ComputedDrafter, Draft, DraftEngine, DraftRules
from edgellm.speculation.sources import Source
from edgellm.speculation.vocabularies import TokenMap


class SequenceEngine(DraftEngine, Protocol):
    """An engine with sequences and a prefix cache of its own: see `edgellm.engine.protocol.Engine`."""

    ctx: int

    def begin(self, ids: Ids[int]) -> Any:
        """A sequence for a text, with the longest beginning of it that the prefix cache holds, but its last token."""

    def retire(self, sequence: Any) -> None:
        """Leave a sequence to the prefix cache. Any thread may call this at any time."""


class ModelDrafter(ComputedDrafter):
    """Drafts of one reply whose text is `ids` so far. It begins with what the prefix cache has of that.

    Where the text is longer than the context of the engine, it begins anew with the last half of a context.
    """

    source: Source = "model"

    def __init__(self, engine: SequenceEngine, ids: Ids[int], tokens: TokenMap) -> None:
        self.engine: SequenceEngine = engine
        self._tokens, self._text = tokens, tokens.draft_ids(ids)  # in the draft model's ids
        self._sequence: Sequence | None = None
        self._first = 0  # of the text, the first token that the sequence has
        self._shared = 0  # tokens of the sequence that are those of the text from there on
        self._cached = 0  # tokens that the text begins with, which the prefix cache has, as far as is known
        self._chain: DraftChain | None = None
        self._drafts: list[int] = []  # those of the round, in the draft model's ids
        self._forks: list[Sequence] = []  # with the states of the last round that a recurrent sequence has no more
        self._begin_at(self._earliest)

    def accept(self, token: int) -> None:
        """See `ComputedDrafter`."""
        (own,), at = self._tokens.draft_ids([token]), len(self._text) - self._first
        self._text.append(own)
        sequence = self._sequence
        if sequence is not None and self._shared == at < len(sequence) and sequence.tokens[at] == own:
            self._shared += 1

    def restart(self, ids: Ids[int]) -> None:
        """See `ComputedDrafter`."""
        self.pause()
        self._text, self._cached = self._tokens.draft_ids(ids), 0

    def close(self) -> None:
        """See `ComputedDrafter`."""
        self.pause()

    def pause(self) -> None:
        """See `ComputedDrafter`. What is left in the prefix cache need not be computed again."""
        sequence = self._nearest()
        if sequence is not None and not self._first:
            self._cached = sequence.reach(self._keep)
        self._sequence, self._first, self._shared = None, 0, 0
        self._forks.clear()
        if sequence is not None:
            self.engine.retire(sequence)

    def lag(self) -> int:
        """See `ComputedDrafter`: at least one, as the logits of the last token are needed."""
        earliest = self._earliest
        first, has = (self._first, self._has) if self._goes_on else (earliest, 0 if earliest else self._cached)
        return max(1, len(self._text) - first - has)

    @property
    def skipped(self) -> int:
        """See `ComputedDrafter`."""
        earliest = self._earliest
        if not self._goes_on or self._first <= earliest:
            return 0
        return max(0, self._first + self._has - (earliest or self._cached))

    @property
    def _goes_on(self) -> bool:
        """Whether the sequence has room for the text."""
        return self._sequence is not None and len(self._text) - self._first <= self.engine.ctx

    @property
    def _earliest(self) -> int:
        """The first token of the text to read: of a text that is too long, that of its last half of a context."""
        text, ctx = len(self._text), self.engine.ctx
        return 0 if text <= ctx else text - -(-ctx // 2)

    def begin(self, rules: DraftRules) -> None:
        """See `ComputedDrafter`."""
        self._chain, self._drafts = DraftChain(rules), []
        if not self._goes_on:
            self.pause()
            self._begin_at(self._earliest)
        self._go_back()
        if rules.window is not None and self.lag() > rules.window:
            self.pause()
            self._begin_at(len(self._text) - rules.window)

    def _begin_at(self, first: int) -> None:
        """Have a sequence for the text from its token `first` on."""
        self._sequence, self._first = self.engine.begin(self._text[first:]), first
        self._shared = len(self._sequence)
        if not first:
            self._cached = self._shared

    def _go_back(self) -> None:
        """Drop the tokens that the text does not have, and those whose state is not there."""
        self._sequence = self._nearest()
        assert self._sequence is not None, "it has begun"
        self._forks.clear()
        self._shared = self._sequence.trim(self._keep)

    @property
    def _has(self) -> int:
        """Tokens of the text, from `_first` on, that need not be computed."""
        sequence = self._nearest()
        return 0 if sequence is None else sequence.reach(self._keep)

    @property
    def _keep(self) -> int:
        """Tokens of the sequence that are those of the text; the last one of that is computed again for its logits."""
        return min(self._shared, len(self._text) - self._first - 1)

    def _nearest(self) -> Sequence | None:
        """The sequence or its fork that can go back to the most tokens of the text."""
        states = [] if self._sequence is None else [self._sequence, *self._forks]
        return max(states, key=lambda each: each.reach(self._keep), default=None)

    def segment(self) -> Segment[Any] | None:
        """See `ComputedDrafter`."""
        sequence = self._sequence
        assert sequence is not None and self._chain is not None, "`begin` comes first"
        text, start = len(self._text) - self._first, len(sequence)
        if text + len(self._drafts) > self.engine.ctx or self._chain.has_ended:
            return None
        if sequence.needs_marks:
            self._forks.append(sequence.fork())
        left = [*self._text[self._first + start :], *self._drafts[max(0, start - text) :]]
        tokens = left[: self.engine.max_rows]
        return Segment(sequence, tokens, [len(tokens) - 1] if tokens == left else [])

    def take(self, outputs: Outputs) -> Drawn | None:
        """See `ComputedDrafter`. Raises EdgeLLMError where no token may come next."""
        chain, sequence = self._chain, self._sequence
        assert chain is not None and sequence is not None, "`begin` comes first"
        self._shared = min(len(sequence), len(self._text) - self._first)
        if outputs.logits is None or not len(outputs.logits):
            return None
        drawn = chain.draw(self._tokens.target_logits(outputs.logits[-1]))
        self._drafts += self._tokens.draft_ids([drawn.token, *chain.force()])
        return drawn

    def draft(self) -> Draft:
        """See `ComputedDrafter`."""
        return self._chain.draft if self._chain else Draft([], [], [])
