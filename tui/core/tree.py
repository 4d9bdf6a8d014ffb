"""A conversation as a tree: every version of every message is kept, and one path through it is shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `text` is as it was written, a model's thinking included.

    `parent` is the message before it, None at the beginning. `finish_reason` of a reply is None while it is written
    (or where the program was killed over it), then one of `eog stop length cancelled error`. `stats` are the fields of
    `edgellm.generate.stats.Stats`, and `context_used`, the tokens that were in the context at its end, of `ctx` that it had room
    for. `dropped_tokens` counts the tokens of the conversation that a reply did not see, `dropped_messages` the
    messages, from the first one on without the system prompt. `created` is in seconds since the epoch.
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


class Tree:
    """The messages of one conversation. `leaf` is the last one shown, None where there is nothing yet."""

    def __init__(self, messages: Iterable[Message] = (), leaf: int | None = None) -> None:
        self.messages: dict[int, Message] = {}
        self.leaf: int | None = None
        self._children: dict[int | None, list[int]] = {}
        self._shown: dict[int | None, int] = {}
        for message in messages:
            self.put(message)
        self.show(leaf)

    def put(self, message: Message) -> None:
        """Add a message after its parent, or replace the one of the same id. What is shown stays."""
        if message.id not in self.messages:
            self._children.setdefault(message.parent, []).append(message.id)
        self.messages[message.id] = message

    def withdraw(self, message: int, instead: int) -> bool:
        """Take a version out and show another one in its place; one that something follows stays. Whether it is out."""
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
        """Show the path through a message, and below it as it was shown last, or else the newest."""
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
        """Show the version that is `step` further; nothing happens beyond the first and the last."""
        versions = self.versions(message)
        place = versions.index(message) + step
        if 0 <= place < len(versions):
            self.show(versions[place])
