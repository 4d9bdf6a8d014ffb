"""The conversation, as one widget."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from tui.clipboard import copy
from tui.transcript import bindings
from tui.transcript.copying import answer_code, message_text, thinking_code
from tui.transcript.entry import TranscriptEntry
from tui.transcript.strips import gutter_line, selected_text, strip
from tui.transcript.styles import COMPONENTS
from tui.transcript.viewport import Viewport


class Transcript(ScrollView, can_focus=True):
    """Shows entries: replies as Markdown, all else as it was written. `viewport` scrolls."""

    ALLOW_SELECT = True
    DEFAULT_CSS = Path(__file__).with_name("transcript.tcss").read_text("utf-8")
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    FOCUS_ON_CLICK = False  # its keys are letters: only the keyboard leads here
    BINDINGS = bindings.BINDINGS

    selected: reactive[int | None] = reactive(None, init=False)
    """The key of the marked entry."""

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

    class Following(Message):
        """The view starts or ends following the end."""

        def __init__(self, following: bool) -> None:
            super().__init__()
            self.following = following

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.viewport = Viewport(self, lambda following: self.post_message(self.Following(following)))
        self._list = self.viewport.list
        self._painting = False
        self._base = Style.null()

    # What is shown

    def show(self, entries: Sequence[TranscriptEntry]) -> None:
        """Show these entries. Unchanged ones keep their rendered lines; an all new list is shown at its end."""

        def change() -> int:
            self._list.set_entries(entries)
            return 0

        if not any(self._list.row(entry.key) for entry in entries):
            self.viewport.follow(True)
        self.viewport.change(change)
        if self.selected is not None and self._list.row(self.selected) is None:
            self.selected = None

    def set_text(self, key: int, text: str) -> None:
        """Replace the text of an entry; a text that grew at its end costs least. An unknown key is no error."""
        if (row := self._list.row(key)) is not None:
            self.replace(replace(row.content.entry, text=text))

    def replace(self, entry: TranscriptEntry) -> None:
        """Show an entry in the place of the one with its key."""
        row = self._list.row(entry.key)
        if row is not None and row.content.entry != entry:
            row.content.update(entry)
            self.viewport.change(lambda: self._list.row_changed(row))

    @property
    def following(self) -> bool:
        """Whether the end stays in view. Setting it True scrolls there."""
        return self.viewport.following

    @following.setter
    def following(self, following: bool) -> None:
        top = self.viewport.top_line()
        self.viewport.follow(following)
        self.viewport.arrange(top)

    def point_at(self, key: int, words: str) -> None:
        """Mark a message, and scroll to its first line with one of the words, unfolding it if needed."""
        row = self._list.row(key)
        if row is None:
            return
        self.selected = key
        wanted = words.casefold().split()
        line = self._list.find(key, wanted)
        if line is None and row.content.has_folds:
            self._fold(key)
            line = self._list.find(key, wanted)
        if line is not None:
            self.viewport.follow(False)
            self.viewport.arrange(line, self.size.height // 3)

    # Keys and clicks

    def watch_selected(self, key: int | None) -> None:
        """Scroll to the marked message, and post `Selected`."""
        if key is not None:
            self.viewport.reveal(key)
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

    def action_scroll_end(self) -> None:
        """Go to the end and follow."""
        self.following = True

    def action_copy_code(self, number: int | None = None) -> None:
        """Copy code block `number`, or the last one, of the marked message or else of the last one that has code."""
        entries = [self._list.rows[-1 - at].content.entry for at in range(len(self._list.rows))]
        if self.selected is not None:
            entries = [entry for entry in entries if entry.key == self.selected]
        found = next((blocks for entry in entries if (blocks := answer_code(entry))), [])
        self._copy_code(found, len(found) if number is None else number)

    def action_copy_message(self) -> None:
        """Copy the marked message, or else the last one."""
        if (key := self._marked_or_last) is not None and (row := self._list.row(key)):
            if text := message_text(row.content.entry):
                copy(self.app, text, "the message")
            else:  # as of a reply whose calls have results
                self.notify("This message has no text to copy.", severity="warning", timeout=3)

    def action_fold(self) -> None:
        """Open or close the thinking, or the middle of a long text, in the marked message or else in the last one."""
        if (key := self._marked_or_last) is not None:
            self._fold(key)

    @property
    def _marked_or_last(self) -> int | None:
        keys = self._list.keys
        return self.selected if self.selected is not None or not keys else keys[-1]

    def on_click(self, event: events.Click) -> None:
        """Act on a version marker, a fold line, or the label of a code block."""
        at = event.get_content_offset(self)
        line = None if at is None else self._list.position(self.scroll_offset.y + at.y)
        if line is None:
            return
        meta = event.style.meta
        if "walk" in meta:
            self.post_message(self.Walk(line.key, meta["walk"]))
        elif "fold" in meta:
            self._fold(line.key)
        elif "code" in meta:
            content = self._list.rows[line.row].content
            code_of = thinking_code if line.block in content.thoughts else answer_code
            self._copy_code(code_of(content.entry), meta["code"])

    def _fold(self, key: int) -> None:
        row = self._list.row(key)
        if row is not None:
            row.content.toggle_fold()
            self.viewport.change(lambda: self._list.row_changed(row))

    def _copy_code(self, blocks: Sequence[str], number: int) -> None:
        if 1 <= number <= len(blocks):
            copy(self.app, blocks[number - 1], f"code {number} of {len(blocks)}")
        else:
            self.notify("There is no such code to copy here.", severity="warning", timeout=3)

    # What Textual calls

    def notify_style_update(self) -> None:
        """The theme may be another."""
        super().notify_style_update()
        self.viewport.styles_changed()

    def on_resize(self) -> None:
        """Wrap the lines again; the line at the top stays there."""
        self.viewport.change(lambda: 0)

    def scroll_to(self, x: float | None = None, y: float | None = None, **how: Any) -> None:
        """Scroll without animation: on the way the heights of what comes into view become known."""
        super().scroll_to(x, y, **how | {"animate": False})

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Render what comes into view."""
        super().watch_scroll_y(old_value, new_value)
        self.viewport.scrolled(round(old_value), round(new_value))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Strips for the screen, without the offsets that selecting with the mouse needs: they cost most."""
        self.viewport.restyle_if_stale()
        self._base = self.rich_style
        self._painting = True
        try:
            return super().render_lines(crop)
        finally:
            self._painting = False

    def render_line(self, y: int) -> Strip:
        """Line `y` of the view."""
        y += self.scroll_offset.y
        position = self._list.position(y)
        if position is None:
            return Strip.blank(self.size.width, self._base)
        line = gutter_line(self._list, position, self.selected)
        selection = self.text_selection
        span = selection.get_span(y) if selection else None
        highlight = self.screen.get_component_rich_style("screen--selection")
        painted = strip(line, self._base, span, highlight)
        return painted if self._painting else painted.apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        """The text that is selected with the mouse."""
        return selected_text(self._list, selection), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Show what is selected."""
        self.refresh()
