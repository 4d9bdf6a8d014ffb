"""Generation in three layers: ids (`edgellm.generate.decoding`), then text with stats, then the whole string.

Each layer only wraps the one below, and every item of the stream carries its own figures.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import randbits
from threading import Lock, get_ident
from typing import Self

from edgellm.engine.protocol import Stopped
from edgellm.generate.decoding import Choice, Lease, Prompt, generate_ids
from edgellm.generate.logprobs import Candidate, Scored, scored
from edgellm.generate.session import Cancel, PrefillProgress, Session
from edgellm.generate.stats import Live, Stats
from edgellm.generate.stop_strings import StopStrings
from edgellm.generate.timing import Meter
from edgellm.options import GenerationOptions
from edgellm.sampling.sampler import Sampler
from edgellm.text.detokenizer import TextStream, excerpt
from edgellm.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token and the text that became certain with it.

    `text` may be empty: half a character, or what may be the beginning of a stop string, comes with a later
    token. `logprob` is the logarithm of its probability in the model's own distribution, None if that was not
    wanted; `top_logprobs` are the likeliest tokens at its place, as many as were asked for. `finish_reason` is None but
    for the last: `eog`, `stop` or `length`.
    """

    id: int
    text: str
    logprob: float | None
    finish_reason: str | None
    top_logprobs: tuple[Candidate, ...]
    _meter: Meter = field(repr=False)
    _count: int = field(repr=False)

    @property
    def stats(self) -> Stats:
        """The figures up to this token."""
        return self._meter.stats(self._count)


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole generation: text, ids, why it ended (`eog stop length cancelled`), and what it cost.

    `dropped_tokens` is how many tokens of the conversation it did not see, for want of context. `logprobs` has each
    token with its log-probability, None if they were not wanted.
    """

    text: str
    tokens: list[int]
    finish_reason: str
    stats: Stats
    dropped_tokens: int = 0
    logprobs: list[Scored] | None = None


class Generation:
    """A running generation: iterate over its tokens, `cancel()` it from any thread.

    `finish_reason` is None until it has ended; `text`, `tokens` and `logprobs` are what has come so far; after `cancel`
    `text` also has what might have become a stop string. `lease` gives it a sequence for as long as it runs. `on_end`
    gets the text when it has ended, unless it ended before its first token.
    """

    def __init__(
        self,
        session: Session,
        tokenizer: Tokenizer,
        lease: Lease,
        prompt: Prompt,
        options: GenerationOptions,
        meter: Meter,
        progress: PrefillProgress | None = None,
        on_end: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Raises ContextOverflowError, OptionError and EdgeLLMError before anything is computed."""
        session.check_fits(prompt.ids)
        self.text = ""
        self.tokens: list[int] = []
        self.finish_reason: str | None = None
        room = math.inf if prompt.slide else session.engine.ctx - len(prompt.ids) + 1
        self._limit = room if options.max_tokens is None else min(room, options.max_tokens)
        self._ends, self._special = tokenizer.eog_ids, options.special
        self.logprobs: list[Scored] | None = None if options.logprobs is False else []
        self._most = 0 if isinstance(options.logprobs, bool) else options.logprobs
        self._stream = TextStream(tokenizer, options.special)
        self._stops = StopStrings(options.stop, {} if options.special else _hidden(tokenizer))
        self._session, self._tokenizer, self._meter, self._on_end = session, tokenizer, meter, on_end
        self._prompt = prompt
        meter.dropped = prompt.dropped
        self._turn = Lock()
        self._owner: int | None = None
        self._wish = Cancel(session.engine)
        seed = randbits(64) if options.seed is None else options.seed
        sampler = Sampler(options, session.engine.vocab)
        self._ids = generate_ids(session, lease, prompt, sampler, seed, meter, self._wish, progress)

    def __repr__(self) -> str:
        return f"<edgellm.Generation {self.finish_reason or 'running'}, tokens: {len(self.tokens)}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Token:
        self._session.check_here()
        with self._turn:
            self._owner = get_ident()
            try:
                return self._next()
            finally:
                self._owner = None

    def _next(self) -> Token:
        if self._limit == 0:
            self._end("length")
        if self.finish_reason:
            self._probe()
            raise StopIteration
        try:
            return self._token(next(self._ids))
        except Stopped:
            self._end("cancelled")
            raise StopIteration from None
        except BaseException:
            self._end("cancelled")
            raise

    def _probe(self) -> None:
        """Learn the bandwidth of the memory, once: now no token waits for it, nor does anybody who computes."""
        gauge, whole = self._meter.gauge, self.finish_reason != "cancelled"
        if gauge and whole and gauge.wanted(len(self.tokens), self.stats.mbu):
            self._session.if_idle(gauge.probe)

    @property
    def stats(self) -> Stats:
        """The figures so far."""
        return self._meter.stats()

    @property
    def dropped_tokens(self) -> int:
        """How many tokens of the conversation it does not see, so far."""
        return self._meter.dropped.tokens

    @property
    def dropped_messages(self) -> int:
        """How many messages, the first behind the system prompt, it does not see at all, so far."""
        return self._meter.dropped.messages

    def live(self) -> Live:
        """What it is doing at this moment. Cheap, from any thread, at any time."""
        at = self._meter.diverged_at
        return self._meter.live("" if at is None else excerpt(self._tokenizer, self._prompt.ids, at))

    def completion(self) -> Completion:
        """Generate all that is left; the whole text and its figures."""
        for _ in self:
            pass
        reason, dropped = self.finish_reason or "cancelled", self.dropped_tokens
        return Completion(self.text, self.tokens, reason, self.stats, dropped, self.logprobs)

    def cancel(self) -> None:
        """Generate no further: what is being computed ends within milliseconds. From any thread."""
        self._stop(wait=False)

    def close(self) -> None:
        """`cancel`, and wait for what is being computed; a progress callback, which is part of that, cannot wait."""
        self._stop(wait=True)

    def _stop(self, wait: bool) -> None:
        if not self.finish_reason and self._session.origin.in_owner_process():
            self._wish()
            # Whoever has the turn ends it; between two tokens nobody has it, and perhaps nobody asks for more.
            if self._turn.acquire(blocking=wait and self._owner != get_ident()):
                try:
                    self._end("cancelled")
                finally:
                    self._turn.release()

    def _token(self, choice: Choice) -> Token:
        score, top = self._score(choice)
        self.tokens.append(choice.id)
        silent = choice.id in self._ends and not self._special
        text = self._stops.push("" if silent else self._stream.push(choice.id), choice.id)
        reason = self._reason(choice.id)
        if reason and not self._stops.found:
            text += self._stops.push(self._stream.flush()) + self._stops.flush()
        self.text += text
        if reason:
            self._end(reason)
        return Token(choice.id, text, score, reason, top, self._meter, self._meter.deliver())

    def _score(self, choice: Choice) -> tuple[float | None, tuple[Candidate, ...]]:
        if self.logprobs is None:
            return None, ()
        found = scored(self._tokenizer, choice.logits, choice.id, self._most)
        self.logprobs.append(found)
        return found.logprob, found.top_logprobs

    def _reason(self, token: int) -> str | None:
        if token in self._ends:
            return "eog"
        if self._stops.found:
            return "stop"
        return "length" if len(self.tokens) == self._limit else None

    def _end(self, reason: str) -> None:
        """Note why it ended, if it had not; give the sequence back."""
        if not self.finish_reason:
            if reason == "cancelled":
                self.text += self._stops.flush()
            self.finish_reason = reason
            self._meter.end()
            self._ids.close()
            if self.tokens or reason != "cancelled":
                self._on_end(self.text)


def _hidden(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids, by text, of the tokens that leave no text unless `special` is set."""
    ends = {tokenizer.token_bytes(i, special=True).decode(errors="replace"): i for i in tokenizer.eog_ids}
    return {**tokenizer.control_texts, **ends}
