"""Sends messages, and requests replies to them."""

from edgellm.errors import EdgeLLMError
from tui.core.conversation import Conversation
from tui.core.current_model import CurrentModel
from tui.core.events import ChatsChanged, Emit, Notice
from tui.core.replies import Replies
from tui.core.store import Store
from tui.core.store_errors import store_or_notify
from tui.core.tree import Message
from tui.core.worker import Worker


class Sender:
    """Every method raises EdgeLLMError if no model is open or being opened, or if the store fails."""

    def __init__(
        self,
        conversation: Conversation,
        replies: Replies,
        model: CurrentModel,
        worker: Worker,
        store: Store,
        emit: Emit,
    ) -> None:
        self._conversation, self._replies, self._model = conversation, replies, model
        self._worker, self._store, self._emit = worker, store, emit

    def send(self, text: str) -> None:
        """Add a message after the path that is shown; its reply is written as soon as a model is open.

        Raises EdgeLLMError while another reply is pending.
        """
        if self._replies.busy:
            state = "waits for the model" if self._replies.waits_for_model else "is being written"
            raise EdgeLLMError(f"a reply {state}: Esc stops it")
        self._check_model()
        self._replies.stop()
        self._replies.collect()
        self._conversation.create(text, self._model.name, self._model.path)
        self._conversation.merge_stored()
        self._add(self._conversation.leaf, text)

    def edit(self, message: int, text: str) -> None:
        """Send another version of an earlier message; the message stays."""
        if not (edited := self._conversation.chat.tree.messages.get(message)):
            raise EdgeLLMError("the message that was edited is in another chat: open that one to edit it")
        self._check_model()
        self._replies.stop()
        self._add(edited.parent, text)

    def replace(self, message: int, text: str) -> None:
        """Replace the text of a message: a user's message is replied to again, a reply is continued from its end."""
        edited = self._conversation.chat.tree.messages.get(message)
        if edited and edited.role == "assistant":
            self.continue_reply(message, text)
        else:
            self.edit(message, text)

    def regenerate(self, message: int | None = None) -> None:
        """Request another version of the reply `message`, or of the last reply; the reply stays."""
        self._check_model()
        self._replies.stop()
        path = self._conversation.chat.tree.path(message)
        while path and path[-1].role == "assistant":
            path.pop()
        if not path:
            raise EdgeLLMError("there is no message yet to reply to")
        self._request(path[-1].id)

    def continue_reply(self, message: int | None = None, text: str | None = None) -> None:
        """Have the model continue the reply `message`, or the last reply; `text` replaces what is there of it.

        The result is another version, unless the model adds nothing to the text of the reply.
        """
        reply = self.continuable(message)
        self._check_model()
        self._replies.stop()
        assert reply.parent is not None
        begun = self._conversation.chat.tree.messages[reply.id].text
        new = self._request(reply.parent, begun if text is None else text)
        if begun and text in (None, begun):
            self._replies.mark_continuation(new, reply.id)

    def continuable(self, message: int | None = None) -> Message:
        """The reply `message`, or the last reply. Raises EdgeLLMError if nothing can continue it."""
        if self._model.opened and not self._model.opened.continues:
            raise EdgeLLMError("this server does not continue replies: /regen makes another one")
        self._replies.collect()
        messages, path = self._conversation.chat.tree.messages, self._conversation.path
        found = messages.get(message) if message else path[-1] if path else None
        if not found or found.role != "assistant" or found.parent is None:
            raise EdgeLLMError("there is no reply to go on with")
        if found.tool_calls:
            raise EdgeLLMError("this reply calls tools: /regen makes another one")
        return found

    def go_on(self, result: int) -> None:
        """Request the reply that follows the results of calls, the last of which is `result`."""
        try:
            self._request(result)
        except EdgeLLMError as error:
            self._emit(Notice(str(error), "error"))

    def _check_model(self) -> None:
        if self._worker.is_empty:
            raise EdgeLLMError("no model is open: choose one with /model")

    def _add(self, parent: int | None, text: str) -> None:
        message = self._store.add(self._conversation.chat.id, parent, "user", text)
        store_or_notify(self._emit, lambda: self._store.preferences.add_to_history(text))
        self._conversation.chat.tree.put(message)
        self._request(message.id)

    def _request(self, parent: int, begun: str = "") -> int:
        self._conversation.set_model(self._model.name, self._model.path)
        self._model.warn_of_late_servers()
        reply = self._replies.start(parent, self._model.name, self._model.reply_options(), begun)
        self._emit(ChatsChanged())
        return reply
