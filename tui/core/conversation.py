"""The open chat: its messages, the path that is shown, its system prompt, its model and its draft."""

from dataclasses import replace

from edgellm.errors import EdgeLLMError
from tui.core.drafts import Drafts, SavedDraft
from tui.core.events import ChatsChanged, Emit, Notice, PathChanged, SettingsChanged
from tui.core.store import Files, SavedChat, Store
from tui.core.store_errors import store_or_notify
from tui.core.titles import cut
from tui.core.tree import Message

_TITLE_LENGTH = 48
_OPEN_ELSEWHERE = (
    "this chat is open in another program, too: its messages from there appear here with your next message"
)
_MERGED = "messages that another program added to this chat are here, too: as other versions"


class Conversation:
    """One chat at a time. Every change is stored before a method returns.

    `chat.id` is 0 until the first message is sent. `system` is the system prompt of new chats.
    """

    def __init__(self, store: Store, emit: Emit, system: str | None = None) -> None:
        self._store, self._emit = store, emit
        self._system = system or None
        self._drafts = Drafts(store)
        self.chat = self._new()

    def _new(self) -> SavedChat:
        return SavedChat(0, system=self._system)

    @property
    def path(self) -> list[Message]:
        """The messages that are shown, the first one first."""
        return self.chat.tree.path()

    @property
    def leaf(self) -> int | None:
        """The id of the last message that is shown."""
        return self.chat.tree.leaf

    def last_reply(self) -> Message | None:
        """The last reply that is shown."""
        return next((message for message in reversed(self.path) if message.role == "assistant"), None)

    def clear(self) -> None:
        """Open a new, empty chat."""
        self.chat = self._new()
        self._drafts.enter(0)

    def load(self, chat: int, message: int | None = None) -> None:
        """Open a stored chat. If it has `message`, the path through that message is shown."""
        self.chat = self._store.load(chat)
        if message in self.chat.tree.messages:
            self.chat.tree.show(message)
        if not self._drafts.enter(chat):
            self._emit(Notice(_OPEN_ELSEWHERE, "warning"))

    def create(self, text: str, model: str | None, path: str | None) -> None:
        """Store the chat if it is new, and give it a title from `text` if it has none."""
        title = cut(" ".join(text.split()), _TITLE_LENGTH)
        if not self.chat.id:
            self.chat = self._store.load(self._store.new_chat(title, self.chat.system, model, path))
            store_or_notify(self._emit, self._drafts.forget_sent)
            self._drafts.enter(self.chat.id)
        elif title and not self.chat.title:
            store_or_notify(self._emit, lambda: self.rename(title))

    def merge_stored(self) -> None:
        """Add the messages that another program stored in this chat, as other versions."""
        store_or_notify(self._emit, self._merge_stored)

    def _merge_stored(self) -> None:
        known = self.chat.tree.messages
        if self._store.newest(self.chat.id) > max(known, default=0):
            for message in self._store.load(self.chat.id).tree.messages.values():
                if message.id not in known:
                    self.chat.tree.put(message)
            self._emit(Notice(_MERGED))

    def show(self, message: int) -> None:
        """Show the path through a message."""
        self.chat.tree.show(message)
        self._store_leaf()

    def walk(self, message: int | None, step: int) -> None:
        """Show the version `step` after that of a message, or of the last one that has several.

        Raises EdgeLLMError if `message` is None and no message that is shown has another version.
        """
        tree = self.chat.tree
        several = [m.id for m in self.path if len(tree.versions(m.id)) > 1]
        if message is None and not several:
            raise EdgeLLMError("nothing here has another version; /edit and /regen make one")
        tree.walk(several[-1] if message is None else message, step)
        self._store_leaf()

    def _store_leaf(self) -> None:
        store_or_notify(self._emit, lambda: self._store.show(self.chat.id, self.chat.tree.leaf))
        self._emit(PathChanged())

    def rename(self, title: str) -> None:
        """Give the chat, which must be stored, another title."""
        self._store.rename(self.chat.id, title)
        self.chat = replace(self.chat, title=title)
        self._emit(ChatsChanged())

    def set_system(self, text: str, *, stored: bool = True) -> None:
        """Set the system prompt of the chat; empty text means none. It holds for this run alone if not `stored`."""
        if self.chat.id and stored:
            self._store.set_system(self.chat.id, text or None)
        self.chat = replace(self.chat, system=text or None)
        self._emit(SettingsChanged())

    def set_model(self, model: str | None, path: str | None) -> None:
        """Store which model replies in the chat: it is opened with the chat the next time."""
        if self.chat.id and path and self.chat.path != path:
            store_or_notify(self._emit, lambda: self._set_model(model, path))

    def _set_model(self, model: str | None, path: str) -> None:
        self._store.set_model(self.chat.id, model, path)
        self.chat = replace(self.chat, model=model, path=path)

    def draft(self) -> SavedDraft:
        """What was typed in this chat and not sent."""
        read: list[SavedDraft] = []
        store_or_notify(self._emit, lambda: read.append(self._drafts.read(self.chat)))
        return read[0] if read else SavedDraft()

    def save_draft(self, text: str, files: Files = ()) -> None:
        """Store what is typed and not sent, with its attached files. Raises EdgeLLMError."""
        self._drafts.save(SavedDraft(text, files))

    def close(self) -> None:
        """Let other programs store drafts of this chat."""
        self._drafts.close()
