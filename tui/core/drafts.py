"""What is typed and not sent: kept with its chat, or for one that is still to begin."""

from tui.core.presence import Presence
from tui.core.store import Chat, Store

_PLACES = 8


class Drafts:
    """The draft of the chat that is open here. Methods raise EdgeLLMError where the store fails.

    Of several programs that run at once, one alone keeps the draft of a chat. Each has another place for what is typed
    in no chat yet, or in one that another has: what is typed in one terminal is neither found nor lost in the next.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._presence = store, Presence(store.path.with_suffix(".lock"))
        self._chat = 0
        self._own = ""

    def enter(self, chat: int) -> bool:
        """Open a chat in place of the one before, 0 for a new one. False if another program has it open."""
        if self._chat:
            self._presence.leave(_PLACES + self._chat)
        alone = not chat or self._presence.take(_PLACES + chat)
        self._chat = chat if alone else 0
        return alone

    def read(self, chat: Chat) -> str:
        """What was typed; `chat` is the one that is open."""
        return chat.draft if self._chat else str(self._store.preference(self._place(), ""))

    def save(self, text: str) -> None:
        """Keep what is typed."""
        if self._chat:
            self._store.set_draft(self._chat, text)
        else:
            self._store.set_preference(self._place(), text)

    def close(self) -> None:
        """Let other programs have what this one had."""
        self._presence.close()

    def _place(self) -> str:
        """Where this program keeps what is in no chat: where one that has ended left a draft, or else where is none."""
        if not self._own:
            free = [place for place in range(_PLACES) if self._presence.take(place)]
            left = (place for place in free if self._store.preference(_name(place), ""))
            own = next(left, free[0] if free else _PLACES)
            for place in free:
                if place != own:
                    self._presence.leave(place)
            self._own = _name(own)
        return self._own


def _name(place: int) -> str:
    return f"draft {place}" if place else "draft"
