"""Drafts: what is typed and not sent, stored with its chat or for a chat that is still to begin."""

from typing import Any, NamedTuple

from tui.core.chat_lock import ChatLocks
from tui.core.store import Files, SavedChat, Store
from tui.core.store.validation import InvalidError, files

_SLOTS = 8
"""Drafts outside chats; the locks of chats come after those of the slots."""


class SavedDraft(NamedTuple):
    """A text, and the names and texts of the files attached to it."""

    text: str = ""
    files: Files = ()


class Drafts:
    """The draft of the open chat. Methods raise EdgeLLMError if the store fails.

    Of several running programs one alone stores the draft of a chat: the first that opened it. A draft in a chat that
    another program has open, or in no chat, is stored in a slot, and each program has a slot of its own. So drafts of
    two terminals never mix.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._locks = store, ChatLocks(store.path.with_suffix(".lock"))
        self._chat = 0
        self._slot = ""
        self._stored_files: tuple[int, Files] | None = None  # with the chat that they are stored for

    def enter(self, chat: int) -> bool:
        """Open a chat in place of the one before; 0 is a new chat. Returns False if another program has it open."""
        if self._chat:
            self._locks.release(_SLOTS + self._chat)
        alone = not chat or self._locks.acquire(_SLOTS + chat)
        self._chat, self._stored_files = chat if alone else 0, None
        return alone

    def read(self, chat: SavedChat) -> SavedDraft:
        """The stored draft; `chat` is the open chat."""
        if self._chat:
            return SavedDraft(chat.draft, chat.files)
        slot = self._own_slot()
        stored = self._store.preferences.get(_files_key(slot), [])
        return SavedDraft(str(self._store.preferences.get(slot, "")), _valid_files(stored))

    def save(self, draft: SavedDraft) -> None:
        """Store a draft. Its files, which may be large, are stored only if they changed."""
        if self._chat:
            self._store.set_draft(self._chat, draft.text)
        else:
            self._store.preferences.set(self._own_slot(), draft.text)
        if self._stored_files != (self._chat, draft.files):
            self._save_files(draft.files)
            self._stored_files = self._chat, draft.files

    def forget_sent(self) -> None:
        """Clear the slot, as its draft is a message now.

        If the draft was never read or saved here, as by `--plain` in a pipe, the message was another one: it stays.
        """
        if self._slot:
            self.save(SavedDraft())

    def _save_files(self, attached: Files) -> None:
        if self._chat:
            self._store.set_files(self._chat, attached)
        else:
            self._store.preferences.set(_files_key(self._own_slot()), attached)

    def close(self) -> None:
        """Release the chat and the slot to other programs."""
        self._locks.close()

    def _own_slot(self) -> str:
        """The slot of this program: one with the draft of a program that has ended, else a free one."""
        if not self._slot:
            free = [slot for slot in range(_SLOTS) if self._locks.acquire(slot)]
            left = (slot for slot in free if self._has_draft(slot))
            own = next(left, free[0] if free else _SLOTS)
            for slot in free:
                if slot != own:
                    self._locks.release(slot)
            self._slot = _key(own)
        return self._slot

    def _has_draft(self, slot: int) -> bool:
        key = _key(slot)
        return bool(self._store.preferences.get(key, "") or self._store.preferences.get(_files_key(key), []))


def _key(slot: int) -> str:
    return f"draft {slot}" if slot else "draft"


def _files_key(slot: str) -> str:
    return f"{slot} files"


def _valid_files(stored: Any) -> Files:
    """The stored files; none if they are damaged, as that must not keep a chat from opening."""
    try:
        return files(stored)
    except InvalidError:
        return ()
