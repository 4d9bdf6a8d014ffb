"""Speculative decoding: a step computes draft tokens beside the one that is certain; right drafts are accepted.

Decoding is bound by the memory, as each step reads all weights: four rows take 1.2 to 1.5 times as long as one row,
eight 1.6 to 2.5 (measured on Zen 4). A row's logits have the same bits in any batch (`Engine.batch_invariant`), and
sampling depends on seed and position alone. So the text is the same with and without drafts, whatever the sampling
options; drafts, and the number computed, change only the speed.

Of a guided reply the next tokens are often certain (`edgellm.guides.guide.Guide.forced`): these are drafts, too.
"""

from collections import deque
from collections.abc import Sequence as Ids

from edgellm.engine.limits import MAX_DRAFT
from edgellm.engine.protocol import Logits, Sequence
from edgellm.errors import NoMemoryError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.draft_tally import DraftTally
from edgellm.generate.session import Session
from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.drafter import Source
from edgellm.speculation.prompt_lookup import PromptLookup
from kquants.kv_layout import PAGE


class SpeculativeDecoder:
    """Decodes one sequence, of which `length` tokens are accepted. `tally` counts the draft tokens.

    The sequence may hold rejected drafts behind the accepted tokens, which the next step drops. Use it as a context
    manager: at the end they are dropped, before another request can use the sequence.
    """

    def __init__(self, session: Session, sequence: Sequence, lookup: PromptLookup, cancel: CancelFlag) -> None:
        self.length, self.tally = len(sequence), DraftTally()
        self._session, self._sequence, self._lookup, self._cancel = session, sequence, lookup, cancel
        self._policy, self._matched = DraftPolicy(session.step_times), 0
        # Draft tokens not yet accepted or rejected, and the logits [vocab] after those of them that were computed.
        self._drafts, self._draft_logits = deque[int](), deque[Logits]()
        self._certain = 0  # how many of the drafts are certain
        self._has_room = True

    def __enter__(self) -> "SpeculativeDecoder":
        return self

    def __exit__(self, *error: object) -> None:
        if len(self._sequence) > self.length:
            self._session.trim_later(self._sequence, self.length)

    def decode(self, token: int, certain: Ids[int] = ()) -> Logits:
        """The logits [vocab] after `token`, which was sampled last. The tokens `certain` are those that follow it.

        Raises Stopped after `cancel`, and EdgeLLMError once the model is closed.
        """
        if self._drafts:
            source, accepted = self._source, self._drafts.popleft() == token
            if self._certain:
                self._certain -= 1
            else:
                self._policy.record_outcome(self._matched, accepted)
            if accepted and self._draft_logits:
                self._session.check_active(self._cancel)  # as the session does where it computes
                self.tally.accept(source)
                self.length += 1
                return self._draft_logits.popleft()
        self.reject()
        return self._step(token, self._draft(certain))

    @property
    def _source(self) -> Source:
        return "guide" if self._certain else "lookup"

    def reject(self) -> None:
        """Forget all drafts. The next step drops them from the sequence."""
        self._drafts.clear()
        self._draft_logits.clear()
        self._certain = 0

    def continue_from(self, length: int) -> None:
        """Go on behind another prompt of `length` tokens, which the sequence has now."""
        self.reject()
        self.length = length

    def _step(self, token: int, drafts: Ids[int]) -> Logits:
        try:
            logits = self._session.decode(self._sequence, [token, *drafts], self._cancel, self.length)
        except NoMemoryError:
            if not drafts or len(self._sequence) < self.length:  # it was preempted, and there is no memory for it
                raise
            self._has_room = False
            self.reject()
            return self._step(token, ())
        if drafts:
            self.tally.draft(self._source, len(drafts))
        self.length += 1
        self._draft_logits.extend(logits[1:])
        first: Logits = logits[0]
        return first

    def _draft(self, certain: Ids[int]) -> list[int]:
        """The draft tokens of the next step; none once memory was short for the states behind drafts.

        None of them needs a KV page of its own, as allocating one could fail.
        """
        engine = self._session.engine
        room = min(MAX_DRAFT, PAGE - 1 - self.length % PAGE, engine.ctx - self.length - 1)
        if room < 1 or not engine.batch_invariant or not self._has_room:
            return []
        if certain:
            self._drafts.extend(certain[:room])
            self._certain = len(self._drafts)
            return list(self._drafts)
        tokens, self._matched = self._lookup.draft(room)
        count = self._policy.draft_length(len(tokens), self._matched, self._session.rows_beside(self._cancel))
        self._drafts.extend(tokens[: max(1, count)])  # a draft that is not computed is judged, too
        return tokens[:count]
