"""Drafts of a head, which reads the hidden states of its target (multi-token prediction, EAGLE-3)."""

from collections.abc import Sequence as Ids
from typing import Any

from edgellm.engine.head_engine import HeadEngine, HeadState
from edgellm.engine.outputs import Floats, Outputs
from edgellm.engine.protocol import Segment
from edgellm.sampling.gumbel import Drawn
from edgellm.speculation.draft_chain import DraftChain
from edgellm.speculation.drafter import ComputedDrafter, Draft, DraftRules


class HeadDrafter(ComputedDrafter):
    """Drafts of one reply whose text is `ids` so far; `state` is the head's for the sequence of the target.

    The first pass of a round computes the pairs of the text that wait, the others one pair each: the last draft, and
    the head's own state in place of the target's.
    """

    def __init__(self, engine: HeadEngine, ids: Ids[int], state: HeadState) -> None:
        self.engine, self.source = engine, engine.head.source
        self._head, self._state, self._text = engine, state, list(ids)
        self._chain: DraftChain | None = None
        self._waiting = 0  # pairs of the text in the last pass
        self._features: Floats | None = None  # behind the last draft

    def accept(self, token: int) -> None:
        """See `ComputedDrafter`."""
        self._text.append(token)

    def restart(self, ids: Ids[int]) -> None:
        """See `ComputedDrafter`. The state follows the target's sequence."""
        self._text = list(ids)

    def pause(self) -> None:
        """See `ComputedDrafter`."""
        self._state.pause()

    def lag(self) -> int:
        """See `ComputedDrafter`: at least one, as a draft follows the last pair."""
        return max(1, self._state.lag(self._text) or 0)

    def begin(self, rules: DraftRules) -> None:
        """See `ComputedDrafter`."""
        self._chain, self._features = DraftChain(rules), None
        if rules.window is not None and self.lag() > rules.window:
            self._state.begin_at(len(self._text) - 1 - rules.window)

    def segment(self) -> Segment[Any] | None:
        """See `ComputedDrafter`. None also where the target's last tokens were computed without the head."""
        assert self._chain is not None, "`begin` comes first"
        drafts = self._chain.draft.tokens
        if self._chain.has_ended or len(self._text) + len(drafts) > self._head.ctx:
            return None
        if drafts:
            assert self._features is not None, "a pass has the features of the next row"
            return self._state.next_segment(drafts[-1], self._features)
        segment = self._state.segment(self._text, self.engine.max_rows)
        self._waiting = len(segment.tokens) if segment else 0
        return segment

    def take(self, outputs: Outputs) -> Drawn | None:
        """See `ComputedDrafter`. Raises EdgeLLMError where no token may come next."""
        assert self._chain is not None, "`begin` comes first"
        if not self._chain.draft.tokens:
            self._state.confirm(self._waiting)
        if outputs.logits is None or not len(outputs.logits):
            return None
        self._features = self._head.next_features(outputs)
        return self._chain.draw(self._head.target_logits(outputs.logits[-1]))

    def draft(self) -> Draft:
        """See `ComputedDrafter`."""
        assert self._chain is not None, "`begin` comes first"
        return self._chain.draft
