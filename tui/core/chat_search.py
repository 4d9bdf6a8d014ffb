"""Search for words in one chat."""

from typing import NamedTuple

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from tui.core.store import SavedChat


class SearchHit(NamedTuple):
    """A message with the words, the `number`-th of `total`."""

    message: int
    number: int
    total: int


class ChatSearch:
    """Steps through the messages that have some words."""

    def __init__(self) -> None:
        self._wanted = (0, 0, "")
        self._order: list[int] = []
        self._at = 0

    def next(self, chat: SavedChat, words: str) -> SearchHit:
        """The last message with all the words. Each further call with the same words gives the one before, in a circle.

        Messages of the path that is shown come first, then those of other versions. A new message in the chat restarts
        the search. Raises EdgeLLMError if no message has the words.
        """
        wanted = (chat.id, len(chat.tree.messages), words)
        again = wanted == self._wanted and self._order
        self._at = (self._at + 1) % len(self._order) if again else 0
        if not again:
            self._wanted, self._order = wanted, _hits(chat, words.casefold().split())
        if not self._order:
            raise EdgeLLMError(f"no message of this chat has the words {printable(words)}")
        return SearchHit(self._order[self._at], self._at + 1, len(self._order))


def _hits(chat: SavedChat, words: list[str]) -> list[int]:
    shown = {message.id for message in chat.tree.path()}
    messages = chat.tree.messages.values()
    found = [message.id for message in messages if all(word in message.text.casefold() for word in words)]
    return sorted(found, key=lambda message: (message in shown, message), reverse=True)
