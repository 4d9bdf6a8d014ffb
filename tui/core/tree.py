"""A conversation: a tree with all versions of all messages. One path through it is shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.tools.calls import ToolCall


@dataclass(frozen=True, slots=True)
class Message:
    """One message; its `text` includes the model's thinking.

    `parent` is the id of the message before it, None for the first one. `created` is in seconds since the epoch.
    `model` wrote the reply. `finish_reason` of a reply is one of `eog stop length cancelled error tool_calls`, and None
    until its end or if the program was killed before. `stats` are made by `tui.core.past_stats.stats_record`. The model
    did not see the first `dropped_tokens` tokens and `dropped_messages` messages of the conversation, the system prompt
    not counted.

    A message of the role `tool` is the result of the call `tool_call_id` of the tool `name`.
    """

    id: int
    parent: int | None
    role: str
    text: str
    created: float
    model: str | None = None
    finish_reason: str | None = None
    stats: Mapping[str, Any] | None = None
    dropped_tokens: int = 0
    dropped_messages: int = 0
    tool_calls: tuple[ToolCall, ...] = ()
    name: str | None = None
    tool_call_id: str | None = None


class Tree:
    """The messages of one conversation. `leaf` is the id of the last message shown, None in an empty tree."""

    def __init__(self, messages: Iterable[Message] = (), leaf: int | None = None) -> None:
        self.messages: dict[int, Message] = {}
        self.leaf: int | None = None
        self._children: dict[int | None, list[int]] = {}
        self._shown: dict[int | None, int] = {}
        for message in messages:
            self.put(message)
        self.show(leaf)

    def put(self, message: Message) -> None:
        """Add a message after its parent, or replace the one of the same id. The path stays the same."""
        if message.id not in self.messages:
            self._children.setdefault(message.parent, []).append(message.id)
        self.messages[message.id] = message

    def withdraw(self, message: int, instead: int) -> bool:
        """Remove a message and show the version `instead`. Returns False, and removes nothing, if it has children."""
        if self._children.get(message):
            return False
        parent = self.messages.pop(message).parent
        self._children[parent].remove(message)
        if self._shown.get(parent) == message:
            self._shown[parent] = instead
        if self.leaf == message:
            self.show(instead)
        return True

    def show(self, message: int | None) -> None:
        """Show the path through a message. Below it, the path is the one shown last, or else the newest."""
        while message is not None and (below := self._children.get(message)):
            message = self._shown.get(message, below[-1])
        self.leaf = message
        for shown in self.path():
            self._shown[shown.parent] = shown.id

    def path(self, to: int | None = None) -> list[Message]:
        """The messages from the first one to `to`, or to the leaf."""
        path, at = [], self.leaf if to is None else to
        while at is not None:
            path.append(self.messages[at])
            at = self.messages[at].parent
        return path[::-1]

    def versions(self, message: int) -> list[int]:
        """A message and its siblings, the oldest first."""
        return self._children[self.messages[message].parent]

    def walk(self, message: int, step: int) -> None:
        """Show the version `step` after that of a message; does nothing beyond the first and the last version."""
        versions = self.versions(message)
        index = versions.index(message) + step
        if 0 <= index < len(versions):
            self.show(versions[index])
