"""The token loop: prompt ids in, sampled token ids out."""

from collections.abc import Callable, Collection, Generator
from collections.abc import Sequence as Ids
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from edgellm.engine.protocol import Logits, Sequence
from edgellm.generate.cancel_flag import CancelFlag
from edgellm.generate.prompt_lookup import PromptLookup
from edgellm.generate.session import Session
from edgellm.generate.speculation import SpeculativeDecoder
from edgellm.generate.stats import Truncation
from edgellm.generate.timing import PrefillProgress, RequestTimer
from edgellm.generate.token_chooser import TokenChooser

Acquire = Callable[[Ids[int], CancelFlag], AbstractContextManager[Sequence]]
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


class SampledToken(NamedTuple):
    """A sampled token id, and the logits [vocab] that it was sampled from, before any stage of the sampler."""

    id: int
    logits: Logits


def generate_ids(
    session: Session,
    acquire: Acquire,
    prompt: TokensPrompt,
    chooser: TokenChooser,
    timer: RequestTimer,
    cancel: CancelFlag,
    progress: PrefillProgress | None = None,
    ends: Collection[int] = (),
    certain: Callable[[], int | None] = lambda: None,
) -> Generator[SampledToken, None, None]:
    """Choose tokens without end, on the sequence that `acquire` gives. Raises Stopped after `cancel`.

    `ends` are the tokens that end messages in the prompt. `certain` tells how many of the sampled tokens certainly stay
    in the reply, as the others may begin a stop string; the sequence can go back to the end of the former.
    """

    def prefill(ids: list[int]) -> Logits:
        with timer.prefill(len(sequence), progress) as timed_progress:
            return session.prefill(sequence, ids, cancel, timed_progress, ends, timer.record_computing)

    chooser.read(prompt.ids)
    lookup, generated = PromptLookup(prompt.ids), list[int]()
    timer.prompt_tokens = len(prompt.ids)
    with (
        chooser,
        session.decoding(cancel),
        acquire(prompt.ids, cancel) as sequence,
        ExitStack() as stack,
    ):
        timer.diverged_at = sequence.diverged_at
        timer.cached_tokens = session.rewind(sequence, prompt.ids, cancel)
        session.prefix_stats.add(len(prompt.ids), timer.cached_tokens)
        logits = prefill(prompt.ids)
        decoder = stack.enter_context(SpeculativeDecoder(session, sequence, lookup, cancel))
        while True:
            token = chooser.choose(logits, len(prompt.ids) + len(generated))
            lookup.accept(token)
            generated.append(token)
            yield SampledToken(token, logits)
            if certain() == len(generated) - 1:
                session.hold(sequence, decoder.length, cancel)
            if prompt.context_shift and decoder.length == session.engine.ctx:
                shorter = prompt.context_shift(generated)
                timer.truncation = shorter.truncation
                session.rewind(sequence, shorter.ids, cancel)
                logits = prefill(shorter.ids)
                decoder.continue_from(len(shorter.ids))
            else:
                logits = decoder.decode(token, chooser.certain)
                timer.accepted_drafts, timer.context_used = decoder.accepted, decoder.length
