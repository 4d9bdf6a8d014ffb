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
from edgellm.generate.cancel_flag import CancelFlag
from edgellm.generate.draft_policy import DraftPolicy
from edgellm.generate.prompt_lookup import PromptLookup
from edgellm.generate.session import Session
from kquants.kv_layout import PAGE


class SpeculativeDecoder:
    """Decodes one sequence. `accepted` counts the draft tokens that were accepted.

    Use it as a context manager: at the end the sequence holds no token that was not accepted.
    """

    def __init__(self, session: Session, sequence: Sequence, lookup: PromptLookup, cancel: CancelFlag) -> None:
        self.accepted = 0
        self._session, self._sequence, self._lookup, self._cancel = session, sequence, lookup, cancel
        self._policy, self._matched = DraftPolicy(), 0
        # Draft tokens not yet accepted or rejected, and the logits [vocab] after those of them that were computed.
        # The sequence holds the computed ones behind its accepted tokens.
        self._drafts, self._draft_logits = deque[int](), deque[Logits]()
        self._certain = 0  # how many of the drafts are certain
        self._drafted = False  # whether the sequence keeps what it needs to drop drafts
        self._lost: list[int] = []  # accepted tokens that an engine dropped together with rejected ones
        self._has_room = True

    def __enter__(self) -> "SpeculativeDecoder":
        return self

    def __exit__(self, *error: object) -> None:
        self._reject()

    @property
    def length(self) -> int:
        """Tokens of the sequence without drafts that are not accepted yet."""
        return len(self._sequence) - len(self._draft_logits) + len(self._lost)

    def decode(self, token: int, certain: Ids[int] = ()) -> Logits:
        """The logits [vocab] after `token`, which was sampled last. The tokens `certain` are those that follow it.

        Raises Stopped after `cancel`, and EdgeLLMError once the model is closed.
        """
        if self._drafts:
            accepted = self._drafts.popleft() == token
            if self._certain:
                self._certain -= 1
            else:
                self._policy.record_outcome(self._matched, accepted)
            if accepted and self._draft_logits:
                self._session.check_active(self._cancel)  # as the session does where it computes
                self.accepted += 1
                return self._draft_logits.popleft()
        self._reject()
        return self._step(token, certain)

    def _step(self, token: int, certain: Ids[int]) -> Logits:
        if self._lost:
            accepted, self._lost = self._sequence.tokens + self._lost, []
            self._session.prefill(self._sequence, accepted, self._cancel)
        drafts = self._draft(certain)
        computed = self._decode([token, *drafts])
        if computed is None:
            self._has_room = False
            self._drafts.clear()
            self._certain = 0
            return self._step(token, ())
        logits, seconds = computed
        if seconds is not None:  # a step with other requests takes longer, for them
            self._policy.record_step(len(drafts), seconds)
        self._draft_logits.extend(logits[1:])
        self._drafted = bool(drafts)
        first: Logits = logits[0]
        return first

    def _decode(self, tokens: list[int]) -> tuple[Logits, float | None] | None:
        """What `Session.decode` gives; None if there is no memory for drafts."""
        length = len(self._sequence)
        try:
            return self._session.decode(self._sequence, tokens, self._cancel)
        except NoMemoryError:
            if len(tokens) == 1 or len(self._sequence) != length:  # it was preempted, and there is no memory for it
                raise
            return None

    def _draft(self, certain: Ids[int]) -> list[int]:
        """The draft tokens of the next step; none once memory was short for the states behind drafts.

        None of them needs a KV page of its own, as allocating one could fail.
        """
        length, engine = len(self._sequence), self._session.engine
        room = min(MAX_DRAFT, PAGE - 1 - length % PAGE, engine.ctx - length - 1)
        if room < 1 or not engine.batch_invariant or not self._has_room:
            return []
        if certain:
            self._drafts.extend(certain[:room])
            self._certain = len(self._drafts)
            return list(self._drafts)
        tokens, self._matched = self._lookup.draft(room)
        most = self._session.most_drafts(self._cancel)
        count = min(most, self._policy.draft_length(len(tokens), self._matched))
        self._drafts.extend(tokens[: max(1, count)])  # a draft that is not computed is judged, too
        return tokens[:count]

    def _reject(self) -> None:
        """Drop all drafts, also from the sequence. (No other request uses the sequence or its pages meanwhile.)"""
        if self._drafted:
            accepted = self._sequence.tokens[: self.length]
            self._draft_logits.clear()
            self._lost = accepted[self._sequence.trim(len(accepted)) :]
            self._drafted = False
        self._drafts.clear()
        self._certain = 0
