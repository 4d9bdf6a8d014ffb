"""A running generation: the iterator that a caller reads tokens from and cancels."""

import math
from collections.abc import Callable
from secrets import randbits
from threading import Lock, get_ident
from typing import Any, Self

from edgellm.engine.protocol import Stopped
from edgellm.errors import AnswerError, IncompleteOutputError
from edgellm.fmt import counted
from edgellm.generate.cancel_flag import CancelFlag
from edgellm.generate.decoding import Acquire, SampledToken, TokensPrompt, generate_ids
from edgellm.generate.logprobs import SampledLogprob
from edgellm.generate.results import Completion, Token
from edgellm.generate.session import Session
from edgellm.generate.stats import Live, Stats
from edgellm.generate.text_assembler import TextAssembler
from edgellm.generate.timing import PrefillProgress, RequestTimer
from edgellm.generate.token_chooser import TokenChooser
from edgellm.guides.guide import Guide
from edgellm.options import GenerationOptions
from edgellm.sampling.sampler import Sampler
from edgellm.text.detokenizer import excerpt
from edgellm.text.reply_format import ReplyReader
from edgellm.text.tokenizer import Tokenizer
from edgellm.tools.calls import BrokenCall, ToolCall
from edgellm.tools.collector import CallCollector


class Generation:
    """A running generation: iterate over its tokens, `cancel()` it from any thread.

    `finish_reason` is None until the generation has ended. `acquire` gives it a sequence for as long as it runs.
    `on_end` is called with the text when it has ended, unless it was cancelled before its first token. `reader` reads
    the tokens of a reply in that format. `begins_in_thought`: the prompt opened a thought, so that the
    text begins inside of it. `sequence` is that of `TokenChooser`.
    """

    def __init__(
        self,
        session: Session,
        tokenizer: Tokenizer,
        acquire: Acquire,
        prompt: TokensPrompt,
        options: GenerationOptions,
        timer: RequestTimer,
        progress: PrefillProgress | None = None,
        on_end: Callable[[str], None] = lambda text: None,
        reader: ReplyReader | None = None,
        guide: Guide | None = None,
        begins_in_thought: bool = False,
        sequence: int = 0,
    ) -> None:
        """Raises ContextOverflowError, OptionError and EdgeLLMError before anything is computed."""
        session.check_fits(prompt.ids)
        self.finish_reason: str | None = None
        self.begins_in_thought = begins_in_thought
        room = math.inf if prompt.context_shift else session.engine.ctx - len(prompt.ids) + 1
        max_tokens = room if options.max_tokens is None else min(room, options.max_tokens)
        self._output = output = TextAssembler(tokenizer, options, max_tokens, reader, guide)
        self._session, self._tokenizer, self._timer, self._on_end = session, tokenizer, timer, on_end
        self._prompt, self._guide, self._partial, self._json_schema = (
            prompt,
            guide,
            options.partial,
            options.json_schema,
        )
        self._form = options.form is not None
        self._collector = reader if isinstance(reader, CallCollector) else None
        timer.truncation = prompt.truncation
        self._next_lock = Lock()  # held while a token is computed
        self._next_thread: int | None = None
        self._cancel_flag = CancelFlag(session.engine)
        seed = randbits(64) if options.seed is None else options.seed
        sampler = Sampler(options, session.engine.vocab)
        self._ids = generate_ids(
            session,
            acquire,
            prompt,
            TokenChooser(sampler, seed, guide, timer.guided, sequence),
            timer,
            self._cancel_flag,
            progress,
            tokenizer.eog_ids,
            lambda: output.certain,  # no reference to `self`: a generation ends when it is dropped
        )

    def __repr__(self) -> str:
        return f"<edgellm.Generation {self.finish_reason or 'running'}, tokens: {len(self.tokens)}>"

    @property
    def text(self) -> str:
        """The text so far; after `cancel` it includes what was held back as a possible stop string."""
        return self._output.text

    @property
    def prompt_tokens(self) -> int:
        """The number of tokens of the prompt."""
        return len(self._prompt.ids)

    @property
    def tokens(self) -> list[int]:
        """The token ids so far."""
        return self._output.tokens

    @property
    def logprobs(self) -> list[SampledLogprob] | None:
        """The log-probabilities of the tokens so far, None unless requested."""
        return self._output.logprobs

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Token:
        self._session.check_process()
        with self._next_lock:
            self._next_thread = get_ident()
            try:
                return self._next()
            finally:
                self._next_thread = None

    def _next(self) -> Token:
        if self._output.full:
            self._end("length")
        if self.finish_reason:
            self._measure_bandwidth()
            self._check_complete()
            raise StopIteration
        try:
            return self._token(next(self._ids))
        except Stopped:
            self._end("cancelled")
            raise StopIteration from None
        except BaseException:
            self._end("cancelled")
            raise

    def _token(self, sampled: SampledToken) -> Token:
        logprob, top_logprobs = self._output.score(sampled)
        before = len(self.tool_calls)
        text, reason = self._output.push(sampled.id)
        calls = self.tool_calls
        if reason in ("eog", "stop") and calls:
            reason = "tool_calls"
        if reason:
            self._end(reason)
        count, thinking = self._timer.record_token(), bool(self._form and self._guide and not self._guide.begun)
        return Token(sampled.id, text, logprob, reason, top_logprobs, self._timer, count, thinking, calls[before:])

    def _check_complete(self) -> None:
        """Raises IncompleteOutputError if a reply that must conform was cut off, unless that is allowed."""
        if self.finish_reason != "length" or self._partial or not self._form:
            return
        if self._guide is None or self._guide.complete:
            return
        problem = f"the reply was cut off after {counted(len(self.tokens), 'token')}, before it conforms"
        advice = "allow it more tokens ({max_tokens}) or a larger context ({ctx}), or take it as it is ({partial})"
        raise IncompleteOutputError(problem, advice, self._completion(None))

    def _measure_bandwidth(self) -> None:
        """Measure the memory's bandwidth, once: after a reply no token waits for it, nor does another request."""
        estimator = self._timer.mbu_estimator
        if estimator is None or self.finish_reason == "cancelled":
            return
        if estimator.should_measure(len(self.tokens), self.stats.mbu):
            self._session.run_if_idle(estimator.measure)

    @property
    def stats(self) -> Stats:
        """The figures so far."""
        return self._timer.stats()

    @property
    def dropped_tokens(self) -> int:
        """Tokens of the conversation that the model does not see, so far."""
        return self._timer.truncation.tokens

    @property
    def dropped_messages(self) -> int:
        """Messages, the oldest after the system prompt, that the model does not see at all, so far."""
        return self._timer.truncation.messages

    def live(self) -> Live:
        """What the generation does at this moment. Cheap; any thread may call it at any time."""
        at = self._timer.diverged_at
        return self._timer.live("" if at is None else excerpt(self._tokenizer, self._prompt.ids, at))

    def completion(self) -> Completion:
        """Generate all remaining tokens; returns the whole text and its figures.

        Raises IncompleteOutputError if a reply that must conform was cut off, unless the option `partial` allows it,
        and AnswerError if the class of the schema refuses the answer. Both have the reply as `completion`.
        """
        for _ in self:
            pass
        try:
            return self._completion(self._parsed())
        except AnswerError as error:
            error.completion = self._completion(None)
            raise

    def _completion(self, parsed: Any) -> Completion:
        reason, dropped, answer = self.finish_reason or "cancelled", self.dropped_tokens, self.answer
        calls = self.tool_calls, self.broken_calls
        return Completion(self.text, self.tokens, reason, self.stats, dropped, self.logprobs, answer, parsed, *calls)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools so far, which are no part of the text."""
        return tuple(self._collector.calls) if self._collector else ()

    @property
    def broken_calls(self) -> tuple[BrokenCall, ...]:
        """The calls so far that do not parse."""
        return tuple(self._collector.broken) if self._collector else ()

    @property
    def answer(self) -> str | None:
        """The text of a reply that is held to a form, without what the model thinks; None for a free reply."""
        if not self._form:
            return None
        start = self._output.answer_start
        return "" if start is None else self.text[start:]

    def _parsed(self) -> Any:
        """The value of an answer to a JSON schema, None for an incomplete one."""
        if self._json_schema is None or not (self._guide and self._guide.complete):
            return None
        from edgellm.guides.parsed import parsed  # imports what reads classes

        return parsed(self._json_schema, self.answer or "")

    def cancel(self) -> None:
        """End the generation: a running computation ends within milliseconds. Any thread may call it.

        A batch that computes other requests as well goes on to its end, for about a tenth of a second.
        """
        self._stop(wait=False)

    def close(self) -> None:
        """`cancel`, and wait until nothing is computed. Called from a progress callback, it does not wait."""
        self._stop(wait=True)

    def _stop(self, wait: bool) -> None:
        if not self.finish_reason and self._session.origin.in_owner_process():
            self._cancel_flag()
            # A thread in `__next__` ends the generation itself. Between two tokens there is none, and the caller may
            # never ask for another token.
            if self._next_lock.acquire(blocking=wait and self._next_thread != get_ident()):
                try:
                    self._end("cancelled")
                finally:
                    self._next_lock.release()

    def _end(self, reason: str) -> None:
        """Set the finish reason, unless it is set, and release the sequence."""
        if not self.finish_reason:
            if reason == "cancelled":
                self._output.flush()
            self.finish_reason = reason
            self._timer.end()
            self._ids.close()
            if self.tokens or reason != "cancelled":
                self._on_end(self.text)
