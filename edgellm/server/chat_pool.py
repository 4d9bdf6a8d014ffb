"""The conversations of one model that stay cached: requests over HTTP carry all their messages, again and again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from edgellm.chat import Chat
from edgellm.model import Model


class ChatPool:
    """Chats of one model, each with its prefix cache. A request has its chat to itself.

    It gets the one whose last conversation has the most messages in common with its own, from the first on; else a new
    one, or, if `most` are free, the least recently used.
    """

    def __init__(self, model: Model, most: int) -> None:
        self._model, self._most, self._lock = model, most, Lock()
        self._free: list[tuple[Chat, list[Any]]] = []  # with the messages that each had last, least recent first

    @contextmanager
    def take(self, messages: Sequence[Any]) -> Iterator[Chat]:
        """A chat for these messages. Raises EdgeLLMError if the model has no chat template."""
        chat = self._best(messages) or self._model.chat()
        try:
            yield chat
        finally:
            with self._lock:
                self._free.append((chat, list(messages)))
                del self._free[: -self._most]

    def _best(self, messages: Sequence[Any]) -> Chat | None:
        with self._lock:
            if not self._free:
                return None
            found = max(self._free, key=lambda each: _common(each[1], messages))
            if not _common(found[1], messages):
                if len(self._free) < self._most:
                    return None
                found = self._free[0]
            self._free.remove(found)
            return found[0]


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many messages two conversations have in common, from the first on."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
