"""A running generation: the iterator that a caller reads tokens from and cancels."""

from collections.abc import Callable, Generator
from contextlib import suppress
from threading import Lock, get_ident
from typing import Self

from edgellm.engine.protocol import Stopped
from edgellm.errors import OptionError
from edgellm.generate.decoding import SampledToken
from edgellm.generate.logprobs import SampledLogprob
from edgellm.generate.reply_content import ReplyContent
from edgellm.generate.request import Request
from edgellm.generate.results import Completion, Token
from edgellm.generate.stats import Live, Stats
from edgellm.text.detokenizer import excerpt
from edgellm.text.tokenizer import Tokenizer
from edgellm.tools.calls import BrokenCall, ToolCall


class Generation:
    """A running generation: iterate over its tokens, `cancel()` it from any thread.

    `finish_reason` is None until the generation has ended. `begins_in_thought`: the prompt opened a thought, and the
    text begins inside of it. A beam search has no tokens before its end: of it there is only the `completion`.
    """

    def __init__(
        self,
        request: Request,
        ids: Generator[SampledToken, None, None],
        content: ReplyContent,
        tokenizer: Tokenizer,
        on_end: Callable[[str], None] = lambda text: None,
        begins_in_thought: bool = False,
    ) -> None:
        """`ids` computes the tokens. It has no reference to the generation, which ends when it is dropped.

        `on_end` is called with the text when it has ended, unless it was cancelled before its first token.
        """
        self.finish_reason: str | None = None
        self.begins_in_thought = begins_in_thought
        self._request, self._ids, self._content, self._tokenizer = request, ids, content, tokenizer
        self._output, self._timer, self._on_end = content.output, request.timer, on_end
        self._timer.truncation = request.prompt.truncation
        self._next_lock = Lock()  # held while a token is computed
        self._next_thread: int | None = None

    def __repr__(self) -> str:
        return f"<edgellm.Generation {self.finish_reason or 'running'}, tokens: {len(self.tokens)}>"

    @property
    def text(self) -> str:
        """The text so far; after `cancel` it includes what was held back as a possible stop string."""
        return self._output.text

    @property
    def prompt_tokens(self) -> int:
        """The number of tokens of the prompt."""
        return len(self._request.prompt.ids)

    @property
    def tokens(self) -> list[int]:
        """The token ids so far."""
        return self._output.tokens

    @property
    def logprobs(self) -> list[SampledLogprob] | None:
        """The log-probabilities of the tokens so far, None unless requested."""
        return self._output.logprobs

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools so far, which are no part of the text."""
        return self._content.tool_calls

    @property
    def broken_calls(self) -> tuple[BrokenCall, ...]:
        """The calls so far that do not parse."""
        return self._content.broken_calls

    @property
    def answer(self) -> str | None:
        """The text of a reply that is held to a form, without what the model thinks; None for a free reply."""
        return self._content.answer

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
        return self._timer.live("" if at is None else excerpt(self._tokenizer, self._request.prompt.ids, at))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Token:
        if self._content.beams is not None:
            raise OptionError("option beams cannot stream, as its tokens are known at the end: ask for the whole reply")
        return self._take()

    def _take(self) -> Token:
        self._request.session.check_process()
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
            self._content.check_complete(self.finish_reason, self.stats, self.dropped_tokens)
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
        count, thinking = self._timer.record_token(sampled.chosen_at), self._content.thinking
        return Token(sampled.id, text, logprob, reason, top_logprobs, self._timer, count, thinking, calls[before:])

    def _measure_bandwidth(self) -> None:
        """Measure the memory's bandwidth, once: after a reply no token waits for it, nor does another request."""
        estimator = self._timer.mbu_estimator
        if estimator is None or self.finish_reason == "cancelled":
            return
        if estimator.should_measure(len(self.tokens), self.stats.mbu):
            self._request.session.run_if_idle(estimator.measure)

    def completion(self) -> Completion:
        """Generate all remaining tokens; returns the whole text and its figures.

        Raises IncompleteOutputError if a reply that must conform was cut off, unless the option `partial` allows it,
        and AnswerError if the class of the schema refuses the answer. Both have the reply as `completion`.
        """
        with suppress(StopIteration):
            while True:
                self._take()
        return self._content.completion(self.finish_reason or "cancelled", self.stats, self.dropped_tokens)

    def cancel(self) -> None:
        """End the generation: a running computation ends within milliseconds. Any thread may call it.

        A batch that computes other requests as well goes on to its end, for about a tenth of a second.
        """
        self._stop(wait=False)

    def close(self) -> None:
        """`cancel`, and wait until nothing is computed. Called from a progress callback, it does not wait."""
        self._stop(wait=True)

    def _stop(self, wait: bool) -> None:
        if not self.finish_reason and self._request.session.origin.in_owner_process():
            self._request.cancel()
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
