"""Shows other messages of the open chat: versions, and search hits."""

from tui.core.chat_search import ChatSearch, SearchHit
from tui.core.conversation import Conversation
from tui.core.replies import Replies
from tui.core.token_count import TokenCount


class Navigation:
    """Changes the path that is shown."""

    def __init__(self, conversation: Conversation, replies: Replies, tokens: TokenCount) -> None:
        self._conversation, self._replies, self._tokens = conversation, replies, tokens
        self._search = ChatSearch()

    def walk(self, message: int | None, step: int) -> None:
        """Show an earlier (-1) or later (1) version of a message, or of the last one that has several.

        Raises EdgeLLMError if `message` is None and no message that is shown has another version.
        """
        self._conversation.walk(message, step)
        self._tokens.refresh()

    def find(self, words: str) -> SearchHit:
        """Show the last message with all the words; each further call with the same words shows the one before.

        Raises EdgeLLMError if no message has them.
        """
        self._replies.collect()
        hit = self._search.next(self._conversation.chat, words)
        self._conversation.show(hit.message)
        self._tokens.refresh()
        return hit
