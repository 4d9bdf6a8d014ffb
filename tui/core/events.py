"""The events of the worker and of the chat controller."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgellm.tools.calls import ToolCall

if TYPE_CHECKING:
    from edgellm.mcp import Servers
    from edgellm.text.inspection import Inspection


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all events."""


@dataclass(frozen=True, slots=True)
class ModelOpened(Event):
    """A model is open.

    `name` is its name in lists, `ctx` its context in tokens. `thinking` is true if its chat template can switch
    thinking on and off, `effort` if it takes an effort of thinking, `calls` if it shows how the model calls tools.
    `defaults` are the generation options for which its file brings values. `requested` is the path or name by which it
    was opened; `path` opens the same model from any folder. `counts`: it counts tokens; `continues`: it
    continues replies.
    """

    name: str
    ctx: int
    thinking: bool
    defaults: Mapping[str, Any] = field(default_factory=dict)
    requested: str = ""
    path: str = ""
    effort: bool = False
    calls: bool = True
    counts: bool = True
    continues: bool = True


@dataclass(frozen=True, slots=True)
class ModelFailed(Event):
    """The model `name`, as it was requested, was not opened; `problem` is one line with the reason and what to do.

    `previous_open` is true if the model before is still open, `needs_setting` if a setting would let this model open.
    `needs_choice`: a server has several models, and none was named.
    """

    name: str
    problem: str
    previous_open: bool = False
    needs_setting: bool = False
    needs_choice: bool = False


@dataclass(frozen=True, slots=True)
class ReplyEnded(Event):
    """The reply with the id `message` has its final text.

    `finish_reason` is one of `eog stop length cancelled error tool_calls`. `stats` is made by
    `tui.core.past_stats.stats_record`. The model did not see the first `dropped_tokens` tokens and `dropped_messages`
    messages of the conversation. `problem` is one line about an early end or a call that
    does not parse, or None. The text of such a call is the end of `text`.
    """

    message: int
    text: str
    finish_reason: str
    stats: Mapping[str, Any] | None = None
    dropped_tokens: int = 0
    dropped_messages: int = 0
    problem: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class CallsChanged(Event):
    """A call asks, runs or is done: the state of `tui.core.tool_runs.ToolRuns` is another."""


@dataclass(frozen=True, slots=True)
class CallEnded(Event):
    """The run of a call ended with a result. `run` is its number in `tui.core.tool_runs.ToolRuns`."""

    run: int
    result: str


@dataclass(frozen=True, slots=True)
class ResultAdded(Event):
    """A call has a result, which is a message by now."""

    call: ToolCall
    result: str


@dataclass(frozen=True, slots=True)
class ServersOpened(Event):
    """The MCP servers of request `number` are open, or `problem` says in one line why not."""

    number: int
    servers: "Servers | None" = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ConversationCounted(Event):
    """The conversation that ends with the message `leaf` has `tokens` tokens, the system prompt included."""

    leaf: int | None
    tokens: int


@dataclass(frozen=True, slots=True)
class AttachmentCounted(Event):
    """A file called `name`, or a pasted text with an empty name, has `tokens` tokens as part of a message."""

    name: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Inspected(Event):
    """The prompt that the model gets for the conversation that is shown."""

    inspection: "Inspection"


@dataclass(frozen=True, slots=True)
class PathChanged(Event):
    """Other messages are shown, or the state of a shown message changed."""


@dataclass(frozen=True, slots=True)
class ChatsChanged(Event):
    """The list of chats changed, or another chat is open."""


@dataclass(frozen=True, slots=True)
class SettingsChanged(Event):
    """A setting, the system prompt or the model changed."""


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """A line for the user. `severity` is one of `information warning error`."""

    text: str
    severity: str = "information"


Emit = Callable[[Event], None]
"""Takes an event, from any thread."""
