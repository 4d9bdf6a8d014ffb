"""Speculative decoding: a step computes draft tokens beside the one that is certain; right drafts are accepted.

Decoding is bound by the memory, as each step reads all weights: four rows take 1.2 to 1.5 times as long as one row,
eight 1.6 to 2.5 (measured on Zen 4). A row's logits have the same bits in any batch (`Engine.batch_invariant`), and
sampling depends on seed and position alone. So by the default rule the text is the same with and without drafts,
whatever the sampling options; drafts, and the number computed, change only the speed. By the other one, `Rejection`, it
has the same distribution, and depends on them (`edgellm.speculation.rules`).

With a GPU, bits depend on the batch. A step's own logits then decide, so the text has the distribution of the model,
but depends on the drafts as far as rounding does: there are drafts only where the user asks for a draft model.

Of a guided reply the next tokens are often certain (`edgellm.guides.guide.Guide.forced`): these are drafts, too.
"""

import math
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Ids
from itertools import repeat
from time import perf_counter
from typing import NamedTuple

from edgellm.engine.protocol import Logits, Sequence
from edgellm.errors import NoMemoryError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.draft_tally import DraftTally
from edgellm.generate.session import Session
from edgellm.sampling.sampler import Distribution
from edgellm.speculation.acceptance import CERTAIN, Acceptance
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.drafter import DraftRules
from edgellm.speculation.drafting import Drafting
from edgellm.speculation.prompt_lookup import PromptLookup
from edgellm.speculation.rules import Proposal
from edgellm.speculation.sources import Source
from edgellm.speculation.step_plan import PLAIN
from kquants.kv_layout import PAGE


class _Pending(NamedTuple):
    """A draft that is neither accepted nor rejected yet."""

    token: int
    source: Source
    signal: int
    q: Distribution | None = None  # what it was drawn from


class SpeculativeDecoder:
    """Decodes one sequence, of which `length` tokens are accepted. `tally` counts the draft tokens.

    The reply has at most `most` tokens: drafts go no further.

    The sequence may hold rejected drafts behind the accepted tokens, which the next step drops. Use it as a context
    manager: at the end they are dropped, before another request can use the sequence.
    """

    def __init__(
        self, session: Session, sequence: Sequence, lookup: PromptLookup, cancel: CancelFlag, most: float = math.inf
    ) -> None:
        self.length, self.tally = len(sequence), DraftTally()
        self._session, self._sequence, self._lookup, self._cancel = session, sequence, lookup, cancel
        shared = session.drafts
        self._policy = DraftPolicy(shared.times, Acceptance(shared.acceptance), shared.trials)
        self._drafting: Drafting | None = None
        # Drafts not yet accepted or rejected, and the logits [vocab] after those of them that were computed.
        self._pending, self._draft_logits = deque[_Pending](), deque[Logits]()
        self._only_judged: _Pending | None = None  # a draft of prompt lookup, where the step has computed ones
        self._replies, self._left = 1, most
        self._plain_until = 0  # the length of the text, in tokens, from which on steps have drafts
        self._plan, self._longer_s = PLAIN, 0.0  # of the last step; by how much its drafts made the batch longer

    def __enter__(self) -> "SpeculativeDecoder":
        return self

    def __exit__(self, *error: object) -> None:
        if len(self._sequence) > self.length:
            self._session.trim_later(self._sequence, self.length)
        if self._drafting:
            self._session.do_first(self._drafting.close)  # after Ctrl-C another reply's turn may still use it

    def begin_drafting(self) -> None:
        """Begin to draft with the source of the session, if there is one now and none was before."""
        source = self._session.drafts.source
        if self._drafting is None and source and source.works:
            self._drafting = self._session.exclusively(lambda: self._drafting_of(source), self._cancel)

    def expect_draw(self, seconds: float) -> None:
        """To draw the last token took `seconds`, as it may for a draft."""
        if self._drafting:
            self._drafting.expect_draw(seconds)

    def _drafting_of(self, source: ComputedSource) -> Drafting | None:
        self._session.check_open()  # what computes drafts is closed with the model
        try:
            drafter = source.drafter(self._sequence.tokens[: self.length], self._sequence)
        except Exception as error:
            if not isinstance(error, NoMemoryError | MemoryError):  # else there may be some at the next token
                source.fail(error)
            return None
        return Drafting(source, drafter, self._policy)

    @property
    def proposal(self) -> Proposal | None:
        """The computed draft of the next token, which a rule may judge."""
        return Proposal(self._pending[0].token, self._pending[0].q) if self._draft_logits else None

    def decode(self, token: int, certain: Ids[int] = (), rules: Callable[[], DraftRules] | None = None) -> Logits:
        """The logits [vocab] after `token`, which was sampled last. The tokens `certain` are those that follow it.

        `rules` are those of drafts that are computed. Raises Stopped after `cancel`, and EdgeLLMError once the model is
        closed.
        """
        self._left -= 1
        self._policy.add_token(self._replies)
        if self._drafting:
            self._drafting.accept(token)
        if self._is_accepted(token) and self._draft_logits:
            self._session.check_active(self._cancel)  # as the session does where it computes
            self.length += 1
            return self._draft_logits.popleft()
        self.reject()
        return self._step(token, certain, rules)

    def _is_accepted(self, token: int) -> bool:
        """Judge the next draft by the token of the text; False if there is none."""
        if self._only_judged:
            self._policy.record(self._only_judged.source, self._only_judged.signal, self._only_judged.token == token)
            self._only_judged = None
        if not self._pending:
            return False
        draft = self._pending.popleft()
        accepted = draft.token == token
        self._policy.record(draft.source, draft.signal, accepted)
        if accepted and self._draft_logits:
            self.tally.accept(draft.source)
            if draft.source != "guide":
                self._policy.accept(self._plan, self._replies)
        return accepted

    def reject(self) -> None:
        """Forget all drafts. The next step drops them from the sequence."""
        self._pending.clear()
        self._draft_logits.clear()
        self._only_judged = None

    def continue_from(self, ids: Ids[int]) -> None:
        """Go on behind another prompt, which the sequence has now."""
        self.reject()
        self.length, self._plain_until = len(ids), 0
        if self._drafting:
            self._drafting.drafter.restart(ids)

    def _step(self, token: int, certain: Ids[int], rules: Callable[[], DraftRules] | None) -> Logits:
        self._plan, self._longer_s = PLAIN, 0.0
        drafts, drafting = self._draft(certain, rules)
        tokens = [token, *drafts]
        try:
            logits = self._session.decode(self._sequence, tokens, self._cancel, self.length, drafting, self._add_longer)
        except NoMemoryError:
            self._settle(drafting)
            if drafting:
                self._count(drafting, 0)
            has_drafts = drafts or (drafting and drafting.kept)
            if not has_drafts or len(self._sequence) < self.length:  # it was preempted, and there is no memory for it
                raise
            self._plain_until = self.length + PAGE
            self.reject()
            return self._step(token, (), None)
        if drafting:
            self._take(drafting)
        elif drafts:
            self.tally.draft(self._pending[0].source, len(drafts))
        self._settle(drafting)
        self.length += 1
        self._draft_logits.extend(logits[1:])
        first: Logits = logits[0]
        return first

    def _settle(self, drafting: Drafting | None) -> None:
        """Pay for the drafts of the step, also of one that found no memory."""
        if self._plan.source:
            self._policy.settle(self._plan, self._longer_s + (drafting.seconds if drafting else 0.0))

    def _add_longer(self, seconds: float) -> None:
        self._longer_s += seconds

    def _take(self, drafting: Drafting) -> None:
        """Have the drafts that were computed for the step."""
        source, draft = drafting.drafter.source, drafting.draft
        self._pending.extend(
            _Pending(token, source, signal, q)
            for token, signal, q in zip(draft.tokens, draft.signals, draft.distributions or repeat(None), strict=False)
        )
        self._count(drafting, drafting.kept)

    def _count(self, drafting: Drafting, drafts: int) -> None:
        """Count the drafts of a step, and what they took, in the figures of the reply."""
        bytes_read = drafting.passes * drafting.source.pass_bytes
        self.tally.draft(drafting.drafter.source, drafts, drafting.seconds, bytes_read)

    def _draft(self, certain: Ids[int], rules: Callable[[], DraftRules] | None) -> tuple[list[int], Drafting | None]:
        """The drafts of the next step, or what computes them; none for a page where no memory was left for a step's.

        None of them needs a KV page of its own, as allocating one could fail.
        """
        engine = self._session.engine
        page, context = PAGE - 1 - self.length % PAGE, engine.ctx - self.length - 1
        room = int(min(self._session.drafts.most, page, context, self._left - 1))
        is_allowed = engine.batch_invariant or self._session.drafts.are_asked_for
        if room < 1 or self.length < self._plain_until or not is_allowed:
            return [], None
        if certain:
            self._pending.extend(_Pending(each, "guide", CERTAIN) for each in certain[:room])
            return list(certain[:room]), None
        found = self._lookup.draft(room)
        drafting = self._drafting if rules and self._drafting and self._drafting.works else None
        if drafting and self._session.prompts_wait():  # nothing is drafted beside these, but what was found is computed
            drafting = None
        beside = self._session.rows_beside(self._cancel)
        step_seconds = self._session.drafts.times.seconds(1)
        self._replies = self._session.replies_beside(self._cancel) + 1
        cost = drafting.cost(self._replies, step_seconds) if drafting and step_seconds else None
        self._plan = plan = self._policy.plan(found, room, beside, cost)
        if drafting and rules and plan.source == drafting.drafter.source:
            began = perf_counter()
            draft_rules = rules()
            drafting.prepare(plan, draft_rules, perf_counter() - began)
            self._only_judged = _Pending(found.tokens[0], "lookup", found.matched) if found.tokens else None
            return [], drafting
        # A draft that is not computed is judged, too.
        judged = found.tokens[: max(1, plan.most)]
        self._pending.extend(_Pending(each, "lookup", found.matched) for each in judged)
        return found.tokens[: plan.most], None
