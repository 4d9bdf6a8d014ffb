"""Generation in three layers: ids, then text with stats, then the whole string.

Each layer only wraps the one below, and every item of the stream carries its own figures.
"""

from collections.abc import Callable, Generator, Iterator
from collections.abc import Sequence as Ids
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from secrets import randbits
from typing import NamedTuple, Self

from edgellm.engine.engine import Stopped
from edgellm.engine.pages import Sequence
from edgellm.options import GenerationOptions
from edgellm.session import Cancel, PrefillProgress, Session
from edgellm.stats import Meter, Stats
from edgellm.text.sampling import Sampler, draw, logprob
from edgellm.text.stops import StopStrings
from edgellm.text.stream import TextStream
from edgellm.text.tokenizer import Tokenizer

Lease = AbstractContextManager[Sequence]


class Choice(NamedTuple):
    """A sampled token id and the logarithm of its probability in the model's own distribution."""

    id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token and the text that became certain with it.

    `text` may be empty: half a character, or what may be the beginning of a stop string, comes with a later
    token. `finish_reason` is None but for the last: `eog`, `stop` or `length`.
    """

    id: int
    text: str
    logprob: float
    finish_reason: str | None
    _meter: Meter = field(repr=False)
    _count: int = field(repr=False)

    @property
    def stats(self) -> Stats:
        """The figures up to this token."""
        return self._meter.stats(self._count)


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole generation: text, ids, why it ended (`eog stop length cancelled`), and what it cost."""

    text: str
    tokens: list[int]
    finish_reason: str
    stats: Stats


def generate_ids(
    session: Session,
    sequence: Sequence,
    prompt: Ids[int],
    options: GenerationOptions,
    meter: Meter,
    cancel: Cancel,
    progress: PrefillProgress | None = None,
) -> Iterator[Choice]:
    """Sample token after token, without end. Raises Stopped after `cancel`."""
    sampler = Sampler(options, session.engine.vocab)
    for token in prompt:
        sampler.accept(token)
    seed = randbits(64) if options.seed is None else options.seed
    meter.prompt_tokens = len(prompt)
    with meter.prefill():
        logits, meter.cached_tokens = session.prefill(sequence, prompt, cancel, progress)
    while True:
        token = draw(sampler.apply(logits), seed, 0, len(sequence))
        sampler.accept(token)
        yield Choice(token, logprob(logits, token))
        logits = session.decode(sequence, token, cancel)


class Generation:
    """A running generation: iterate over its tokens, `cancel()` it from any thread.

    `finish_reason` is None until it has ended; `text` and `tokens` are what has come so far. `lease` gives it a
    sequence for as long as it runs; `on_end` hears of its end, however it came.
    """

    def __init__(
        self,
        session: Session,
        tokenizer: Tokenizer,
        lease: Lease,
        prompt: Ids[int],
        options: GenerationOptions,
        meter: Meter,
        progress: PrefillProgress | None = None,
        on_end: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Raises ContextOverflowError and EdgeLLMError before anything is computed."""
        session.check_fits(prompt)
        self.cancel = Cancel(session.engine)
        self.text = ""
        self.tokens: list[int] = []
        self.finish_reason: str | None = None
        room = session.engine.ctx - len(prompt) + 1
        self._limit = room if options.max_tokens is None else min(room, options.max_tokens)
        self._ends = tokenizer.eog_ids
        self._stream = TextStream(tokenizer, options.special)
        self._stops = StopStrings(options.stop)
        self._meter = meter
        self._on_end = on_end

        def choices(sequence: Sequence) -> Iterator[Choice]:
            return generate_ids(session, sequence, prompt, options, meter, self.cancel, progress)

        self._tokens = self._run(lease, choices)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Token:
        return next(self._tokens)

    @property
    def stats(self) -> Stats:
        """The figures so far."""
        return self._meter.stats()

    def completion(self) -> Completion:
        """Generate all that is left; the whole text and its figures."""
        for _ in self:
            pass
        return Completion(self.text, self.tokens, self.finish_reason or "cancelled", self.stats)

    def close(self) -> None:
        """Generate no further."""
        self._tokens.close()

    def _run(self, lease: Lease, choices: Callable[[Sequence], Iterator[Choice]]) -> Generator[Token, None, None]:
        try:
            with lease as sequence:
                ids = choices(sequence)
                if self._limit == 0:
                    self.finish_reason = "length"
                while self.finish_reason is None:
                    yield self._token(next(ids))
        except Stopped:
            pass
        finally:
            self.finish_reason = self.finish_reason or "cancelled"
            self._on_end(self.text)

    def _token(self, choice: Choice) -> Token:
        self.tokens.append(choice.id)
        text = self._stops.push(self._stream.push(choice.id))
        if choice.id in self._ends:
            self.finish_reason = "eog"
        elif self._stops.found:
            self.finish_reason = "stop"
        elif len(self.tokens) == self._limit:
            self.finish_reason = "length"
        if self.finish_reason and not self._stops.found:
            text += self._stops.push(self._stream.flush()) + self._stops.flush()
        self.text += text
        return Token(choice.id, text, choice.logprob, self.finish_reason, self._meter, self._meter.deliver())
