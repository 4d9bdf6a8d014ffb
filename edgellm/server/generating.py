"""The threads of a request: its replies are generated at once, and it is told what comes of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from time import perf_counter
from typing import Any

from edgellm.chat import Chat
from edgellm.engine.protocol import Stopped
from edgellm.generate.at_once import GenerationGroup
from edgellm.generate.generation import Generation
from edgellm.generate.results import Token
from edgellm.model import Model
from edgellm.server.events import Event, ReplyBegun, ReplyEnd, ReplyPart, ScoredToken
from edgellm.server.thoughts import ThoughtSplitter
from edgellm.server.work import Prompt, Work

Emit = Callable[[Event], None]
_REASONS = {"eog": "stop", "stop": "stop", "length": "length", "tool_calls": "tool_calls"}


class Generating:
    """Runs `work` with an open model. Any thread may `cancel` it; `emit` is called by several threads.

    `admit` gets the number of tokens of each prompt before it is computed, and may raise.
    """

    def __init__(self, work: Work, model: Model, emit: Emit, admit: Callable[[int], None] | None = None) -> None:
        self._work, self._model, self._emit, self._admit = work, model, emit, admit
        self._group = GenerationGroup()

    def __call__(self) -> None:
        """Generate all replies, at once. Raises OptionError and EdgeLLMError."""
        with suppress(Stopped):
            self._group.run([partial(self._reply, *choice) for choice in self._work.choices()])

    def cancel(self) -> None:
        """End the work, within milliseconds once a reply has begun."""
        self._group.cancel()

    def _reply(self, choice: int, prompt: Prompt, options: Mapping[str, Any]) -> None:
        with self._started(prompt, options) as generation, self._group.cancelling(generation):
            if self._admit and choice % self._work.n == 0:
                self._admit(generation.prompt_tokens)
            self._emit(ReplyBegun(choice))
            _ReplyTeller(choice, self._work.chat, self._model, generation, self._emit).tell()

    @contextmanager
    def _started(self, prompt: Prompt, options: Mapping[str, Any]) -> Iterator[Generation]:
        if not self._work.chat:
            with closing(self._model.stream(prompt, **options)) as generation:  # type: ignore[arg-type]
                yield generation
            return
        with self._group.cancelling(self._model.chat()) as chat:
            options = _with_thinking(chat, self._work.think, options)
            with closing(chat.reply(prompt, begun=self._work.begun, **options)) as generation:  # type: ignore[arg-type]
                yield generation


class _ReplyTeller:
    """One reply: its parts, and its end."""

    def __init__(self, choice: int, chat: bool, model: Model, generation: Generation, emit: Emit) -> None:
        self._choice, self._generation, self._emit = choice, generation, emit
        self._tokenizer = model.tokenizer
        self._splitter = ThoughtSplitter(generation.begins_in_thought) if chat else None
        self._thought_tokens = 0

    def tell(self) -> None:
        """Emit the parts of the reply, and its end unless it was cancelled."""
        last: float | None = None
        for token in self._generation:
            now = perf_counter()
            self._part(token, None if last is None else now - last)
            last = now
        if (reason := self._generation.finish_reason) and reason != "cancelled":
            self._end(reason)

    def _part(self, token: Token, gap: float | None) -> None:
        thought, answer = self._splitter.push(token.text) if self._splitter else ("", token.text)
        thinking = bool(self._splitter and (self._splitter.thinking or thought))
        self._thought_tokens += thinking
        scored = () if thinking else tuple(self._scored(token))
        self._emit(ReplyPart(self._choice, thought, answer, token.tool_calls, scored, gap))

    def _scored(self, token: Token) -> Iterator[ScoredToken]:
        """The token, if log-probabilities were asked for; not one without a text, such as that of the end."""
        if token.logprob is not None and (text := self._tokenizer.token_bytes(token.id)):
            top = tuple((self._tokenizer.token_bytes(o.id, special=True), o.logprob) for o in token.top_logprobs)
            yield ScoredToken(text, token.logprob, top)

    def _end(self, reason: str) -> None:
        thought, answer = self._splitter.flush() if self._splitter else ("", "")
        # A call that does not parse is text of the reply, so that nothing of it is lost.
        answer += "".join(broken.text for broken in self._generation.broken_calls)
        if thought or answer:
            self._emit(ReplyPart(self._choice, thought, answer))
        stats = self._generation.stats
        self._emit(ReplyEnd(self._choice, _REASONS[reason], reason == "stop", stats, self._thought_tokens))


def _with_thinking(chat: Chat, think: bool | str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with the variables by which the model's template lets it think, as far as there are any."""
    given = dict(options.get("template_args") or {})
    if think is not None and chat.effort and isinstance(think, str):
        given.setdefault("reasoning_effort", think)
    elif think is not None and chat.thinking:
        given.setdefault("enable_thinking", think not in (False, "none"))
    return {**options, "template_args": given or None}
