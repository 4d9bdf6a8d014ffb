"""What the worker and the desk tell whoever shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgellm.text.inspection import Inspection


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened; the subclasses say what."""


@dataclass(frozen=True, slots=True)
class ModelOpened(Event):
    """A model is ready. `ctx` is in tokens; `thinking`: its template can switch thinking on and off.

    `defaults` are the options of replies for which its file brings values of its own. `asked` is what was to be
    opened: a path, or a name. `path` opens it again, from any folder.
    """

    name: str
    ctx: int
    thinking: bool
    defaults: Mapping[str, Any] = field(default_factory=dict)
    asked: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class ModelFailed(Event):
    """A model was not opened; the line says why and what to do. `kept`: the one before is still open.

    `to_set`: what has to be done is to set something for it.
    """

    name: str
    problem: str
    kept: bool = False
    to_set: bool = False


@dataclass(frozen=True, slots=True)
class ReplyEnded(Event):
    """The reply `message` is as it stays. `problem` is None, or the line that says why it broke off.

    `finish_reason` is one of `eog stop length cancelled error`. `dropped_messages` of those before it were not seen.
    """

    message: int
    text: str
    finish_reason: str
    stats: Mapping[str, Any] | None = None
    dropped_tokens: int = 0
    dropped_messages: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationCounted(Event):
    """The conversation that ends with the message `leaf` has so many tokens."""

    leaf: int | None
    tokens: int


@dataclass(frozen=True, slots=True)
class AttachmentCounted(Event):
    """A file that may go with a message, or a text without a name, has so many tokens."""

    name: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Inspected(Event):
    """What the model would get of the conversation that is shown."""

    inspection: "Inspection"


@dataclass(frozen=True, slots=True)
class PathChanged(Event):
    """Other messages are shown, or the same in another state."""


@dataclass(frozen=True, slots=True)
class ChatsChanged(Event):
    """The list of chats is another, or which of them is open."""


@dataclass(frozen=True, slots=True)
class SettingsChanged(Event):
    """Settings, system prompt or model were changed."""


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """A line for the person. `severity` is one of `information warning error`."""

    text: str
    severity: str = "information"
