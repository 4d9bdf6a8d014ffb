"""The first layer of a generation: a prompt in, sampled ids out."""

from collections.abc import Callable, Generator
from collections.abc import Sequence as Ids
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple

from edgellm.engine.protocol import Logits, Sequence
from edgellm.generate.prompt_lookup import PromptLookup
from edgellm.generate.session import Cancel, PrefillProgress, Session
from edgellm.generate.speculation import Speculation
from edgellm.generate.timing import Dropped, Meter
from edgellm.sampling.sampler import Sampler, draw

Lease = Callable[[Ids[int], Cancel], AbstractContextManager[Sequence]]
"""Gives a sequence to compute a prompt with."""


@dataclass(frozen=True)
class Prompt:
    """What a reply sees, and what of the conversation it does not see.

    A reply that has filled the context goes on with what `slide` makes of its tokens so far, shorter than the context;
    without it, it ends there.
    """

    ids: list[int]
    dropped: Dropped = field(default_factory=Dropped)
    slide: Callable[[list[int]], "Prompt"] | None = None


class Choice(NamedTuple):
    """A sampled token id, and the logits [vocab] that the model gave for its place."""

    id: int
    logits: Logits


def generate_ids(
    session: Session,
    lease: Lease,
    prompt: Prompt,
    sampler: Sampler,
    seed: int,
    meter: Meter,
    cancel: Cancel,
    progress: PrefillProgress | None = None,
) -> Generator[Choice, None, None]:
    """Sample token after token, without end, on the sequence that `lease` gives. Raises Stopped after `cancel`."""

    def read(ids: list[int]) -> Logits:
        with meter.prefill(len(sequence), progress) as watched:
            return session.prefill(sequence, ids, cancel, watched)

    for token in prompt.ids:
        sampler.accept(token)
    lookup, written = PromptLookup(prompt.ids), list[int]()
    meter.prompt_tokens = len(prompt.ids)
    with lease(prompt.ids, cancel) as sequence, Speculation(session, sequence, lookup, cancel) as steps:
        shared, held = sequence.shared_prefix(prompt.ids), sequence.shared_prefix(sequence.tokens)
        meter.diverged_at = shared if shared < min(held, len(prompt.ids)) else None
        meter.cached_tokens = session.rewind(sequence, prompt.ids, cancel)
        logits = read(prompt.ids)
        while True:
            token = draw(sampler.apply(logits), seed, 0, len(prompt.ids) + len(written))
            sampler.accept(token)
            lookup.accept(token)
            written.append(token)
            yield Choice(token, logits)
            if prompt.slide and steps.held == session.engine.ctx:
                shorter = prompt.slide(written)
                meter.dropped = shorter.dropped
                session.rewind(sequence, shorter.ids, cancel)
                logits = read(shorter.ids)
            else:
                logits = steps.decode(token)
                meter.guessed, meter.context_used = steps.guessed, steps.held
