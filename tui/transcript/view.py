"""The conversation, as one widget."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from tui.binding import bind
from tui.clipboard import copy
from tui.transcript.copying import code_blocks, without_thinking
from tui.transcript.entry import TranscriptEntry
from tui.transcript.scrolling import VirtualListView
from tui.transcript.styles import COMPONENTS
from tui.transcript.thinking import split


class Transcript(VirtualListView):
    """Shows entries: replies as Markdown, all else as it was written."""

    DEFAULT_CSS = Path(__file__).with_name("transcript.tcss").read_text("utf-8")
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    FOCUS_ON_CLICK = False  # the keys of ours that are letters are for who goes here with the keyboard
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("transcript.previous", "alt+up", "select_previous", "Mark above", "Mark the message above", show=False),
        bind("transcript.next", "alt+down", "select_next", "Mark below", "Mark the message below", show=False),
        bind(
            "transcript.copy_code",
            "c",
            "copy_code",
            "Copy code",
            "Copy the last code of the marked message, or of the conversation",
        ),
        bind(
            "transcript.copy_message", "y", "copy_message", "Copy message", "Copy the marked message, or the last one"
        ),
        bind(
            "transcript.fold",
            "t",
            "fold",
            "Unfold",
            "Open or close what the model thought, or the rest of a long message",
        ),
        *(
            bind(
                f"transcript.code_{number}",
                str(number),
                f"copy_code({number})",
                f"Copy code {number}",
                "Copy the code of this number",
                show=False,
            )
            for number in range(1, 10)
        ),
    ]

    class Selected(Message):
        """Another message is marked, or none."""

        def __init__(self, key: int | None) -> None:
            super().__init__()
            self.key = key

    class Walk(Message):
        """The user asks for the version before (-1) or after (1) the one that is shown."""

        def __init__(self, key: int, step: int) -> None:
            super().__init__()
            self.key = key
            self.step = step

    def show(self, entries: Sequence[TranscriptEntry]) -> None:
        """Show these entries. What is known of those that have not changed is kept; of others, the end is shown."""

        def change() -> int:
            self._list.show(entries)
            return 0

        if not any(self._list.row(entry.key) for entry in entries):
            self._follow(True)
        self._change(change)
        if self.selected is not None and self._list.row(self.selected) is None:
            self.selected = None

    def set_text(self, key: int, text: str) -> None:
        """Give an entry another text, of which mostly the end is new. A key that is not shown is no error."""
        if (row := self._list.row(key)) is not None:
            self.replace(replace(row.content.entry, text=text))

    def replace(self, entry: TranscriptEntry) -> None:
        """Show an entry in the place of the one with its key."""
        row = self._list.row(entry.key)
        if row is not None and row.content.entry != entry:
            row.content.put(entry)
            self._change(lambda: self._list.changed(row))

    def code_blocks(self, key: int) -> list[str]:
        """The blocks of code in a reply, without its thoughts."""
        row = self._list.row(key)
        if row is None or row.content.entry.role != "assistant":
            return []
        return code_blocks(split(row.content.entry.text, running=False).answer)

    def copy_text(self, key: int) -> str:
        """What copying the message copies: its text, without what the model thought before."""
        row = self._list.row(key)
        if row is None:
            return ""
        entry = row.content.entry
        return without_thinking(split(entry.text, running=False)) if entry.role == "assistant" else entry.text

    def watch_selected(self, key: int | None) -> None:
        """Bring the message into view and tell of it."""
        if key is not None:
            self._reveal(key)
        self.refresh()
        self.post_message(self.Selected(key))

    def action_select_previous(self) -> None:
        """Mark the message before the marked one, or else the last one."""
        self._step(-1)

    def action_select_next(self) -> None:
        """Mark the message after the marked one; after the last one none."""
        self._step(1)

    def _step(self, step: int) -> None:
        keys = self._list.keys
        at = keys.index(self.selected) if self.selected in keys else len(keys)
        at = max(0, at + step)
        self.selected = keys[at] if at < len(keys) else None
        if self.selected is None:
            self.following = True

    def action_copy_code(self, number: int | None = None) -> None:
        """Copy a block of code of the marked message or else of the last one that has some; the last block, or the
        one with the number."""
        keys = [self.selected] if self.selected is not None else list(reversed(self._list.keys))
        found = next((blocks for key in keys if (blocks := self.code_blocks(key))), [])
        self._copy_code(found, len(found) if number is None else number)

    def action_copy_message(self) -> None:
        """Copy the marked message, or else the last one."""
        keys = self._list.keys
        if keys:
            self._copy(self.copy_text(keys[-1] if self.selected is None else self.selected), "the message")

    def action_fold(self) -> None:
        """Open or fold what the model thought or what is long, in the marked message or else in the last one."""
        keys = self._list.keys
        if keys:
            self._fold(keys[-1] if self.selected is None else self.selected)

    def on_click(self, event: events.Click) -> None:
        """Act on a version marker, a folded thought, or the label of a block of code."""
        at = event.get_content_offset(self)
        place = None if at is None else self._list.place(self.scroll_offset.y + at.y)
        if place is None:
            return
        meta = event.style.meta
        if "walk" in meta:
            self.post_message(self.Walk(place.key, meta["walk"]))
        elif "fold" in meta:
            self._fold(place.key)
        elif "code" in meta:
            content = self._list.rows[place.row].content
            parts = split(content.entry.text, running=False)
            thought = place.block in content.thoughts
            self._copy_code(code_blocks((parts.thought or "") if thought else parts.answer), meta["code"])

    def _fold(self, key: int) -> None:
        row = self._list.row(key)
        if row is not None:
            row.content.fold()
            self._change(lambda: self._list.changed(row))

    def _copy_code(self, blocks: Sequence[str], number: int) -> None:
        if 1 <= number <= len(blocks):
            self._copy(blocks[number - 1], f"code {number} of {len(blocks)}")
        else:
            self.notify("There is no such code to copy here.", severity="warning", timeout=3)

    def _copy(self, text: str, what: str) -> None:
        copy(self.app, text, what)

    def point_at(self, key: int, words: str) -> None:
        """Mark a message, and bring the first line of it with one of the words into view, unfolded if need be."""
        row = self._list.row(key)
        if row is None:
            return
        self.selected = key
        wanted = words.casefold().split()
        place = self._list.find(key, wanted)
        if place is None and row.content.folds:
            self._fold(key)
            place = self._list.find(key, wanted)
        if place is not None:
            self._follow(False)
            self._arrange(place, self.size.height // 3)

    def _reveal(self, key: int) -> None:
        """Scroll as little as shows the message, or the beginning of one that is larger than the view."""
        top, bottom = self._list.span(key)
        above, height = self.scroll_offset.y, self.size.height
        if above <= top and bottom <= above + height:
            return
        self._follow(False)
        if top < above or bottom - top >= height:
            self._arrange(self._list.place(top))
        else:
            self._arrange(self._list.place(bottom - 1), height - 1)
