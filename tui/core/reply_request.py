"""What the worker needs to write one reply."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.core.backend import Messages
from tui.core.events import ReplyEnded


@dataclass(frozen=True, slots=True)
class ReplyRequest:
    """A request for a reply.

    `message` is the id of the reply, `messages` the conversation before it, `options` those of
    `edgellm.chat.Chat.reply`. `begun` is the text that the reply continues, empty for a new reply. `save` is called
    with the id and the text four times a second while the text grows, in a thread of its own. `end` is called once,
    after the last `save` and before ReplyEnded is emitted, in the worker's thread.
    """

    message: int
    messages: Messages
    options: Mapping[str, Any] = field(default_factory=dict)
    begun: str = ""
    save: Callable[[int, str], None] = lambda message, text: None
    end: Callable[[ReplyEnded], None] = lambda event: None
