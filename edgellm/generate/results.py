"""What a generation gives its caller: a token at a time, or the whole completion."""

from dataclasses import dataclass, field
from typing import Any

from edgellm.generate.logprobs import Logprob, SampledLogprob
from edgellm.generate.stats import Stats
from edgellm.generate.timing import RequestTimer
from edgellm.tools.calls import BrokenCall, ToolCall


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token and the text that became certain with it.

    `text` may be empty: a part of a character, or a possible beginning of a stop string, comes with a later token.
    `logprob` is the natural logarithm of the token's probability in the model's own distribution, None unless
    requested; `top_logprobs` has as many of the most likely tokens at its position as were requested.
    `finish_reason` is None except for the last token: `eog`, `stop`, `length` or `tool_calls`. `thinking`: the token
    comes before the answer of a guided reply. `tool_calls` are the calls of tools that became complete with it.
    """

    id: int
    text: str
    logprob: float | None
    finish_reason: str | None
    top_logprobs: tuple[Logprob, ...]
    _timer: RequestTimer = field(repr=False)
    _count: int = field(repr=False)
    thinking: bool = False
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def stats(self) -> Stats:
        """The figures up to this token."""
        return self._timer.stats(self._count)


@dataclass(frozen=True, slots=True)
class BeamReply:
    """A reply that a beam search found.

    `score` is the natural logarithm of its probability, divided by the number of its tokens, with that of the end.
    """

    text: str
    tokens: list[int]
    score: float
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole generation: text, token ids, finish reason and figures.

    The finish reason is `eog`, `stop`, `length`, `cancelled`, or `tool_calls`: it waits for results of its calls.

    `dropped_tokens` counts the tokens of the conversation that did not fit in the context. `logprobs` has one entry
    for each token, None unless requested.

    Of a reply that was held to a form, `answer` is the text behind what the model thought; `parsed` is the value of an
    answer to a JSON schema: of the class, if the schema was given as one.

    `tool_calls` are the calls of tools, which are no part of the text, and `broken_calls` those that do not parse, such
    as one that was cut off.

    `beams` are the replies that a beam search found, best first: the first one is that of the completion. None without
    the option.
    """

    text: str
    tokens: list[int]
    finish_reason: str
    stats: Stats
    dropped_tokens: int = 0
    logprobs: list[SampledLogprob] | None = None
    answer: str | None = None
    parsed: Any = None
    tool_calls: tuple[ToolCall, ...] = ()
    broken_calls: tuple[BrokenCall, ...] = ()
    beams: tuple[BeamReply, ...] | None = None
