"""What comes of the work of a request, in order: replies begin, grow by parts, and end."""

from dataclasses import dataclass

from edgellm.generate.stats import Stats
from edgellm.tools.calls import ToolCall


@dataclass(frozen=True)
class ScoredToken:
    """A token of an answer, as bytes, with its log-probability, and those of the most likely tokens there."""

    text: bytes
    logprob: float
    top: tuple[tuple[bytes, float], ...]


@dataclass(frozen=True)
class ReplyBegun:
    """A reply will come: its request has no fault."""

    choice: int


@dataclass(frozen=True)
class ReplyPart:
    """What one token, or the end, adds to a reply: to its thought, its answer and its calls.

    `gap_s` is the time since the token before, None for the first.
    """

    choice: int
    thought: str
    answer: str
    calls: tuple[ToolCall, ...] = ()
    scored: tuple[ScoredToken, ...] = ()
    gap_s: float | None = None


@dataclass(frozen=True)
class ReplyEnd:
    """The end of a reply. `reason` is `stop`, `length` or `tool_calls`; `stop_string`: it ended before a stop string.

    `thought_tokens` counts the tokens of its thought, of `stats.generated_tokens`.
    """

    choice: int
    reason: str
    stop_string: bool
    stats: Stats
    thought_tokens: int


Event = ReplyBegun | ReplyPart | ReplyEnd
