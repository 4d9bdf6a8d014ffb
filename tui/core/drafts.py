"""What is typed and not sent: kept with its chat, or for one that is still to begin."""

from typing import Any, NamedTuple

from tui.core.chat_lock import ChatLocks
from tui.core.store import Files, SavedChat, Store
from tui.core.store.validation import InvalidError, files

_PLACES = 8


class SavedDraft(NamedTuple):
    """A text, and the files that go with it: their names and texts."""

    text: str = ""
    files: Files = ()


class Drafts:
    """The draft of the chat that is open here. Methods raise EdgeLLMError where the store fails.

    Of several programs that run at once, one alone keeps the draft of a chat. Each has another place for what is typed
    in no chat yet, or in one that another has: what is typed in one terminal is neither found nor lost in the next.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._presence = store, ChatLocks(store.path.with_suffix(".lock"))
        self._chat = 0
        self._own = ""
        self._files: tuple[int, Files] | None = None  # those of which chat are saved

    def enter(self, chat: int) -> bool:
        """Open a chat in place of the one before, 0 for a new one. False if another program has it open."""
        if self._chat:
            self._presence.leave(_PLACES + self._chat)
        alone = not chat or self._presence.take(_PLACES + chat)
        self._chat, self._files = chat if alone else 0, None
        return alone

    def read(self, chat: SavedChat) -> SavedDraft:
        """What was typed; `chat` is the one that is open."""
        if self._chat:
            return SavedDraft(chat.draft, chat.files)
        place = self._place()
        return SavedDraft(str(self._store.preference(place, "")), _attached(self._store.preference(_files(place), [])))

    def save(self, draft: SavedDraft) -> None:
        """Keep what is typed; files, which may be large, only where they are others than before."""
        if self._chat:
            self._store.set_draft(self._chat, draft.text)
        else:
            self._store.set_preference(self._place(), draft.text)
        if self._files != (self._chat, draft.files):
            self._save_files(draft.files)
            self._files = self._chat, draft.files

    def forget_sent(self) -> None:
        """Forget what was typed in no chat yet: it is a message now.

        Where nobody has looked at it, as in a pipe, it was another message, and stays.
        """
        if self._own:
            self.save(SavedDraft())

    def _save_files(self, attached: Files) -> None:
        if self._chat:
            self._store.set_files(self._chat, attached)
        else:
            self._store.set_preference(_files(self._place()), attached)

    def close(self) -> None:
        """Let other programs have what this one had."""
        self._presence.close()

    def _place(self) -> str:
        """Where this program keeps what is in no chat: where one that has ended left a draft, or else where is none."""
        if not self._own:
            free = [place for place in range(_PLACES) if self._presence.take(place)]
            left = (place for place in free if self._left(place))
            own = next(left, free[0] if free else _PLACES)
            for place in free:
                if place != own:
                    self._presence.leave(place)
            self._own = _name(own)
        return self._own

    def _left(self, place: int) -> bool:
        """Whether a program that has ended left something there."""
        name = _name(place)
        return bool(self._store.preference(name, "") or self._store.preference(_files(name), []))


def _files(place: str) -> str:
    return f"{place} files"


def _attached(kept: Any) -> Files:
    """What was kept, as far as it can be read: it is nothing that a chat should not open for."""
    try:
        return files(kept)
    except InvalidError:
        return ()


def _name(place: int) -> str:
    return f"draft {place}" if place else "draft"
