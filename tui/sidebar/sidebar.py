"""The list of chats, to search, open, rename and delete them, and to undo a deletion."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.binding import bind
from tui.core.store.records import ChatRow
from tui.core.titles import with_joiners
from tui.sidebar.row import row

_KEYS = "Enter opens · F2 renames\nDel deletes · Ctrl+Z undoes"
_SEARCH, _RENAME = "Search chats", "New title, then Enter"


class Sidebar(Widget):
    """Shows chats and posts what the user wants; it changes none itself."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("chats.up", "up", "move(-1)", "Up", "The chat above", show=False),
        bind("chats.down", "down", "move(1)", "Down", "The chat below", show=False),
        bind("chats.rename", "f2", "rename", "Rename", "Give the chat another title", show=False),
        bind("chats.delete", "delete", "delete", "Delete", "Delete the chat", show=False, priority=True),
        bind(
            "chats.undo",
            "ctrl+z",
            "undo",
            "Undo",
            "Restore the chat that was deleted last",
            show=False,
            priority=True,
        ),
        bind("chats.leave", "escape", "leave", "Back", "Back to the conversation", show=False),
    ]

    @dataclass
    class Search(Message):
        """Search for other words."""

        words: str

    @dataclass
    class Open(Message):
        """Open a chat; `hit` is the message in it that was found."""

        chat: int
        hit: int | None = None

    @dataclass
    class Rename(Message):
        """Give a chat a new title."""

        chat: int
        title: str

    @dataclass
    class Delete(Message):
        """Delete a chat."""

        chat: int

    class Undo(Message):
        """Restore the chat that was deleted last."""

    class Leave(Message):
        """Back to the conversation."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[ChatRow] = ()
        self._current = 0
        self._renaming: int | None = None

    def compose(self) -> ComposeResult:
        """The search, the list, and a line about the keys."""
        yield Input(placeholder=_SEARCH, compact=True)
        yield OptionList(markup=False)
        yield Static(_KEYS, id="keys", markup=False)

    def show(self, rows: Sequence[ChatRow], current: int) -> None:
        """Show these chats, `current` as the open one. The highlighted chat stays highlighted if it is among them."""
        options = self.query_one(OptionList)
        chosen = self._chosen
        self._rows, self._current = rows, current
        options.clear_options()
        options.add_options(Option(row(each, open=each.id == current), id=str(each.id)) for each in rows)
        if not rows and self.query_one(Input).value:
            options.add_option(Option("no chat has these words", disabled=True))
        self._highlight(chosen or current)

    def search(self) -> None:
        """Focus the search, and highlight the open chat."""
        self.query_one(Input).focus()
        self._highlight(self._current)

    def _highlight(self, chat: int) -> None:
        places = {each.id: place for place, each in enumerate(self._rows)}
        self.query_one(OptionList).highlighted = places.get(chat, 0 if self._rows else None)

    @property
    def _chosen(self) -> int | None:
        place = self.query_one(OptionList).highlighted
        return self._rows[place].id if place is not None and place < len(self._rows) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """While a title is typed, the input has the keys that edit text."""
        return self._renaming is None or action not in ("delete", "undo")

    def action_move(self, step: int) -> None:
        """Highlight another chat; the cursor stays in the search."""
        options = self.query_one(OptionList)
        options.action_cursor_down() if step > 0 else options.action_cursor_up()

    def action_rename(self) -> None:
        """Ask for another title."""
        if (chat := self._chosen) is not None:
            title = next(each.title for each in self._rows if each.id == chat)
            self._ask(chat, with_joiners(title), _RENAME)

    def action_delete(self) -> None:
        """Delete the highlighted chat."""
        if (chat := self._chosen) is not None:
            self.post_message(self.Delete(chat))

    def action_undo(self) -> None:
        """Restore the chat that was deleted last."""
        self.post_message(self.Undo())

    def action_leave(self) -> None:
        """End renaming, or else go back to the conversation."""
        if self._renaming is None:
            self.query_one(Input).value = ""
            self.post_message(self.Leave())
        else:
            self._ask(None, "", _SEARCH)

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        message.stop()
        if self._renaming is None:
            self.post_message(self.Search(message.value))

    @on(Input.Submitted)
    def _entered(self, message: Input.Submitted) -> None:
        message.stop()
        if self._renaming is None:
            if (chat := self._chosen) is not None:
                self._open(chat)
            return
        if title := message.value.strip():
            self.post_message(self.Rename(self._renaming, title))
        self._ask(None, "", _SEARCH)

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        self._open(int(message.option.id or 0))

    def _open(self, chat: int) -> None:
        hits = (each.hit for each in self._rows if each.id == chat)
        self.post_message(self.Open(chat, next(hits, None)))

    def _ask(self, renaming: int | None, text: str, placeholder: str) -> None:
        """Use the input for a title, or again for the search."""
        self._renaming = renaming
        box = self.query_one(Input)
        box.placeholder, box.value = placeholder, text
        box.cursor_position = len(text)
        box.focus()
