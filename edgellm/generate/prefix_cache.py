"""The prefix cache, as a conversation sees it: its prompts begin with what the engine has computed for any prompt."""

from collections.abc import Collection, Iterator
from collections.abc import Sequence as Ids
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import NamedTuple
from weakref import ref

from edgellm.engine.protocol import Sequence, common_prefix
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.session import Session
from kquants.kv_layout import PAGE

_POLL_S = 0.01
"""Seconds between two looks at a prompt that is being computed."""

_PATIENCE_S = 5.0
"""Seconds after which a prompt is not waited for that did not go on meanwhile."""


class _Promise(NamedTuple):
    """A sequence with which a prompt is computed; others can continue it at `tokens` tokens."""

    sequence: Sequence
    tokens: int


class PrefixCache:
    """Gives the requests of a conversation a sequence each, which begins with the tokens that were computed before.

    So a regenerated reply, an edited message or an older version of the conversation computes only its new tokens. If
    another request is about to compute more of a prompt, the prompt waits for that.
    """

    def __init__(self, session: Session) -> None:
        self._session, self._last = session, list[int]()

    @contextmanager
    def acquire(self, ids: Ids[int], cancel: CancelFlag, ends: Collection[int] = ()) -> Iterator[Sequence]:
        """A sequence to compute `ids` with, in which `ends` end messages. Raises Stopped after `cancel`."""
        sequence = self._take(list(ids), cancel, ends)
        shared = common_prefix(self._last, list(ids))
        if len(sequence) <= shared < min(len(self._last), len(ids)):
            sequence.diverged_at = shared
        try:
            yield sequence
        finally:
            self._keep_later(sequence)
            self._session.prompts.pop(ref(sequence), None)
            self._session.engine.retire(sequence)

    def _keep_later(self, sequence: Sequence) -> None:
        """Keep the tokens of a sequence to compare the next prompt with, when its rejected drafts are dropped."""
        found = ref(self)  # a reference would keep the session, and so the engine, of a forgotten model

        def keep() -> None:
            if cache := found():
                cache._last = list(sequence.tokens)

        self._session.do_first(keep)

    def _take(self, ids: list[int], cancel: CancelFlag, ends: Collection[int]) -> Sequence:
        waited: list[Sequence] = []
        while True:
            found = self._session.exclusively(lambda: self._begin(ids, ends, waited), cancel)
            if isinstance(found, Sequence):
                return found
            self._wait_for(found, cancel)
            waited.append(found.sequence)

    def _begin(self, ids: list[int], ends: Collection[int], waited: list[Sequence]) -> Sequence | _Promise:
        """A sequence for a prompt; or what another request is about to compute of it that is worth to wait for."""
        sequence = self._session.engine.begin(ids)
        prompts = self._session.prompts
        for each in list(prompts):  # not its items: making those may collect garbage, which removes dead sequences
            other, prompt = each(), prompts.get(each)
            if other is None or prompt is None or other in waited:
                continue
            tokens = promised(other, prompt, ids, ends)
            if len(other) < tokens and tokens - len(sequence) >= PAGE:
                return _Promise(other, tokens)
        prompts[ref(sequence, lambda dead: prompts.pop(dead, None))] = ids
        return sequence

    def _wait_for(self, promise: _Promise, cancel: CancelFlag) -> None:
        """Wait until a sequence holds what it promises, or does not go on any more, or not before others have ended."""
        computed, since = -1, perf_counter()
        while (length := len(promise.sequence)) < promise.tokens and self._goes_on(promise.sequence):
            now = perf_counter()
            if length != computed:
                computed, since = length, now
            elif now - since > _PATIENCE_S:
                return
            sleep(_POLL_S)
            self._session.check_active(cancel)

    def _goes_on(self, sequence: Sequence) -> bool:
        return ref(sequence) in self._session.prompts and not self._session.waits_for_memory(sequence)


def promised(sequence: Sequence, prompt: list[int], ids: list[int], ends: Collection[int]) -> int:
    """The most tokens of `ids` with which `sequence`, used for another prompt, can be continued when it has them."""
    shared = common_prefix(prompt, ids)
    if sequence.shared_prefix(prompt) < len(sequence):  # the reply has outgrown the context
        return 0
    if sequence.goes_back:
        return shared
    marks = [len(prompt) - 1, *(i + 1 for i, token in enumerate(prompt) if token in ends)]
    return max((n for n in marks if n <= shared), default=0)
