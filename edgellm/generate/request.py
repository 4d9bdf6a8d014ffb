"""A request: a prompt, and what its reply is computed with."""

from collections.abc import Callable, Collection, Iterator
from collections.abc import Sequence as Ids
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from edgellm.engine.protocol import Logits, Sequence
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.session import Session
from edgellm.generate.stats import Truncation
from edgellm.generate.timing import PrefillProgress, RequestTimer

Acquire = Callable[[Ids[int], CancelFlag, Collection[int]], AbstractContextManager[Sequence]]
"""Gives a sequence to compute a prompt with: `PrefixCache.acquire`."""


@dataclass(frozen=True)
class TokensPrompt:
    """The token ids that a reply continues, and what of the conversation was truncated to make them fit.

    `context_shift` takes the tokens generated so far and returns a shorter prompt. It is called when the reply has
    filled the context; a reply without it ends there.
    """

    ids: list[int]
    truncation: Truncation = field(default_factory=Truncation)
    context_shift: Callable[[list[int]], "TokensPrompt"] | None = None


@dataclass(frozen=True)
class Request:
    """A request that one thread computes and any thread may `cancel`.

    `ends` are the tokens that end messages in the prompt. All methods raise Stopped after `cancel`.
    """

    session: Session
    acquire: Acquire
    prompt: TokensPrompt
    timer: RequestTimer
    cancel: CancelFlag
    progress: PrefillProgress | None = None
    ends: Collection[int] = ()

    @contextmanager
    def computed_prompt(self) -> Iterator[tuple[Sequence, Logits]]:
        """The sequence of the request with its prompt, and the logits [vocab] of the last token.

        In this context the request counts as one that decodes.
        """
        session, ids, timer = self.session, self.prompt.ids, self.timer
        timer.prompt_tokens = len(ids)
        with session.decoding(self.cancel), self.acquire(ids, self.cancel, self.ends) as sequence:
            timer.diverged_at = sequence.diverged_at
            timer.cached_tokens = session.rewind(sequence, ids, self.cancel)
            session.prefix_stats.add(len(ids), timer.cached_tokens)
            yield sequence, self._prefill(sequence, ids)

    def replace_prompt(self, sequence: Sequence, ids: list[int]) -> Logits:
        """Go on with another prompt; returns the logits [vocab] of its last token."""
        self.session.rewind(sequence, ids, self.cancel)
        return self._prefill(sequence, ids)

    def _prefill(self, sequence: Sequence, ids: list[int]) -> Logits:
        with self.timer.prefill(len(sequence), self.progress) as timed_progress:
            return self.session.prefill(
                sequence, ids, self.cancel, timed_progress, self.ends, self.timer.record_computing
            )
