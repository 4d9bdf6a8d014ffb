"""The chats that are kept: begun, opened, searched, forked, removed, exported and imported."""

from collections.abc import Callable, Sequence
from pathlib import Path

from edgellm.errors import EdgeLLMError
from tui.core.backend import Backend
from tui.core.chat_search import ChatSearch, SearchHit
from tui.core.events import ChatsChanged, Event, Notice, PathChanged, SettingsChanged
from tui.core.files import write_new
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.status import ChatStatus
from tui.core.store import ChatRow, Store

_ELSEWHERE = "this chat is open elsewhere, too: what is said there comes here with your next message"


class Chats(ChatStatus):
    """The conversation, and all others that it may give way to."""

    def __init__(
        self, store: Store, backend: Backend, tell: Callable[[Event], None], given: RunOptions = NO_RUN_OPTIONS
    ) -> None:
        super().__init__(store, backend, tell, given)
        self._finder = ChatSearch()

    def chats(self, search: str = "") -> Sequence[ChatRow]:
        """The stored chats, the one used last first."""
        return self.store.chats(search)

    def new_chat(self) -> None:
        """An empty conversation; it is stored when something is said in it."""
        self.stop()
        self.chat = self._new()
        self.drafts.enter(0)
        self._opened_chat()

    def open_chat(self, chat: int, at: int | None = None) -> None:
        """Go on with a stored conversation; `at` is a message to be shown, in whichever version of it."""
        self.stop()
        self.chat = self.store.load(chat)
        if at in self.chat.tree.messages:
            self.chat.tree.show(at)
        if not self.drafts.enter(chat):
            self._tell(Notice(_ELSEWHERE, "warning"))
        self._opened_chat()

    def fork(self, message: int) -> None:
        """A new chat with everything up to a message; this one stays."""
        self.take_written()
        self.open_chat(self.store.put(self.chat.up_to(message)))

    def delete_chat(self, chat: int) -> None:
        """Remove a chat; `undelete_chat` brings it back."""
        self.store.delete(chat)
        if chat == self.chat.id:
            self.new_chat()
        self._tell(ChatsChanged())

    def undelete_chat(self, chat: int) -> None:
        """Bring a removed chat back."""
        self.store.undelete(chat)
        self._tell(ChatsChanged())

    def rename_chat(self, chat: int, title: str) -> None:
        """Give a chat another title."""
        if chat == self.chat.id:
            self._retitle(title)
        else:
            self.store.rename(chat, title)
            self._tell(ChatsChanged())

    def export(self, path: Path) -> None:
        """Write this chat to a file that is not there yet: Markdown, or JSON where the name ends in .json.

        Raises EdgeLLMError for a name that promises another format.
        """
        from tui.core.store.export import OTHERS, to_json, to_markdown

        ending = path.suffix.lower()
        if ending in OTHERS:
            markdown, json = path.with_suffix(".md"), path.with_suffix(".json")
            raise EdgeLLMError(f"a chat is written as Markdown or JSON: {markdown} or {json}")
        self.take_written()
        write_new(path, (to_json if ending == ".json" else to_markdown)(self.chat))

    def import_chats(self, text: str) -> int:
        """Keep the chats of a JSON file and open the last of them; how many there were.

        Raises EdgeLLMError for anything else.
        """
        from tui.core.store.export import from_json

        chats = from_json(self.store, text)
        Chats.open_chat(self, chats[-1])  # the model goes on that is open: no file may choose another
        return len(chats)

    def find(self, words: str) -> SearchHit:
        """Show the last message with all these words, and each time after that the one before it.

        Raises EdgeLLMError if there is none.
        """
        self.take_written()
        found = self._finder.next(self.chat, words)
        self.chat.tree.show(found.message)
        self._show_leaf()
        self.recount()
        return found

    def _opened_chat(self) -> None:
        self.recount()
        self._tell(PathChanged())
        self._tell(ChatsChanged())
        self._tell(SettingsChanged())
