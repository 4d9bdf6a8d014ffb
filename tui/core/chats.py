"""The stored chats: opened, searched, forked, deleted, exported and imported."""

from collections.abc import Sequence
from pathlib import Path

from edgellm.errors import EdgeLLMError
from tui.core.conversation import Conversation
from tui.core.current_model import CurrentModel
from tui.core.display_names import display_name
from tui.core.events import ChatsChanged, Emit, Notice, PathChanged, SettingsChanged
from tui.core.files import write_new
from tui.core.model_references import is_model_name
from tui.core.replies import Replies
from tui.core.store import ChatRow, SavedChat, Store
from tui.core.token_count import TokenCount


class Chats:
    """All chats. Methods raise EdgeLLMError, in one line, if the store fails or a chat does not exist."""

    def __init__(
        self,
        store: Store,
        conversation: Conversation,
        replies: Replies,
        model: CurrentModel,
        tokens: TokenCount,
        emit: Emit,
    ) -> None:
        self._store, self._conversation, self._replies = store, conversation, replies
        self._model, self._tokens, self._emit = model, tokens, emit

    def list(self, search: str = "") -> Sequence[ChatRow]:
        """The chats with all words of `search`, or all chats; the one used last is the first."""
        return self._store.chats(search)

    def new(self) -> None:
        """Open a new chat. It is stored when its first message is sent."""
        self._replies.stop()
        self._conversation.clear()
        self._opened()

    def open(self, chat: int, message: int | None = None, *, own_model: bool = True) -> None:
        """Open a stored chat, with the path through `message` shown.

        The model that replied in it last is opened, too, if `own_model` and another model is open.
        """
        self._replies.stop()
        self._conversation.load(chat, message)
        self._opened()
        if own_model:
            self._open_model(self._conversation.chat)

    def _opened(self) -> None:
        self._tokens.refresh()
        self._emit(PathChanged())
        self._emit(ChatsChanged())
        self._emit(SettingsChanged())

    def _open_model(self, chat: SavedChat) -> None:
        model, own = self._model, chat.path or chat.model
        if not own or own in (model.path, model.name):
            return
        if not model.owns(own):
            was, place = display_name(chat.model or own), model.server or "this machine"
            self._emit(Notice(f"this chat was with {was}; the next reply comes from a model of {place}"))
        elif model.path and (chat.path or is_model_name(own)):
            model.open(own)

    def fork(self, message: int) -> None:
        """Open a new chat with a copy of the messages up to `message`."""
        self._replies.collect()
        self.open(self._store.put(self._conversation.chat.up_to(message)))

    def delete(self, chat: int) -> None:
        """Delete a chat; `undelete` brings it back."""
        self._store.delete(chat)
        if chat == self._conversation.chat.id:
            self.new()
        self._emit(ChatsChanged())

    def undelete(self, chat: int) -> None:
        """Bring a deleted chat back."""
        self._store.undelete(chat)
        self._emit(ChatsChanged())

    def rename(self, chat: int, title: str) -> None:
        """Give a chat another title."""
        if chat == self._conversation.chat.id:
            self._conversation.rename(title)
        else:
            self._store.rename(chat, title)
            self._emit(ChatsChanged())

    def export(self, path: Path) -> None:
        """Write the open chat to a new file: JSON if its name ends in .json, else Markdown.

        Raises EdgeLLMError if the file exists, or if its name ends like another format.
        """
        from tui.core.store.export import OTHER_FORMATS, to_json, to_markdown

        ending = path.suffix.lower()
        if ending in OTHER_FORMATS:
            markdown, json = path.with_suffix(".md"), path.with_suffix(".json")
            raise EdgeLLMError(f"a chat is written as Markdown or JSON: {markdown} or {json}")
        self._replies.collect()
        write_new(path, (to_json if ending == ".json" else to_markdown)(self._conversation.chat))

    def import_json(self, text: str) -> int:
        """Store the chats of a JSON file and open the last one, with the model that is open. Returns their number.

        Raises EdgeLLMError if the text is not in one of the known formats.
        """
        from tui.core.store.export import from_json

        chats = from_json(self._store, text)
        self.open(chats[-1], own_model=False)  # no imported file may choose a model
        return len(chats)
