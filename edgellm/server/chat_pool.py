"""The chats of one model: each generates one reply at a time, and is kept, as its prefix cache ends with it."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from edgellm.chat import Chat
from edgellm.model import Model


class ChatPool:
    """As many chats of a model as replies that ran at once. Any of them finds what the others have computed."""

    def __init__(self, model: Model) -> None:
        self._model, self._free = model, deque[Chat]()

    @contextmanager
    def take(self) -> Iterator[Chat]:
        """A chat that nothing else uses. Raises EdgeLLMError if the model has no chat template."""
        try:
            chat = self._free.pop()
        except IndexError:
            chat = self._model.chat()
        try:
            yield chat
        finally:
            self._free.append(chat)
