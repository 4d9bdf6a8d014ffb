"""The text area of the input box."""

import unicodedata
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from tui.composer.paste import harmless, is_long

_MAX_ROWS = 10


class Editor(TextArea):
    """A text area that grows with its text. Keys without an effect in it are left to the widgets around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+d", "delete_word_right", show=False),
    ]

    def __init__(self, attach_long: Callable[[str], None]) -> None:
        """`attach_long` is called with a pasted text too long to be shown, before keys that follow it are handled."""
        super().__init__(highlight_cursor_line=False)
        self._attach_long = attach_long
        self.menu_open = False
        self.before_binding: Callable[[], None] = lambda: None
        self.after_set_text: Callable[[], None] = lambda: None

    @property
    def cursor(self) -> int:
        """The number of characters before the cursor."""
        return len(self.get_text_range((0, 0), self.cursor_location))

    def set_text(self, text: str, *, at_end: bool = True) -> None:
        """Replace the text and clear the undo history. The cursor goes to the end, or to that of the first line."""
        self.load_text(text)
        self.move_cursor(self.document.end if at_end else (0, len(self.document[0])))
        self.after_set_text()

    def insert_text(self, text: str, instead_of: int = 0) -> None:
        """Insert a text in place of the selection, or of the `instead_of` characters before the cursor."""
        selection = self.selection
        if instead_of:
            row, column = selection.end
            selection = Selection((row, column - instead_of), (row, column))
        self.replace(text, *selection, maintain_selection_offset=False)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The rows of the text, up to ten and to a third of the screen."""
        rows = super().get_content_height(container, viewport, width)
        return max(1, min(rows, _MAX_ROWS, viewport.height // 3))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave a key to others where it would do nothing here."""
        match action:
            case "cursor_up" if not any(parameters):
                return not (self.menu_open or self.navigator.is_first_wrapped_line(self.cursor_location))
            case "cursor_down" if not any(parameters):
                return not (self.menu_open or self.navigator.is_last_wrapped_line(self.cursor_location))
            case "cursor_page_up" | "cursor_page_down":
                return self.max_scroll_y > 0
            case "delete_left" | "delete_right":
                return bool(self.text)
        return super().check_action(action, parameters)

    async def on_key(self, event: events.Key) -> None:
        """Insert joining characters, which Textual ignores, and run bindings of the input box at once."""
        character = event.character or ""
        if len(character) == 1 and unicodedata.category(character) == "Cf":
            self.insert_text(character)
        elif event.is_printable or not await self._run_binding(event.key):
            return
        event.stop()
        event.prevent_default()

    async def _run_binding(self, key: str) -> bool:
        """Run the action that the input box binds to a key. False if there is none, or it has nothing to do.

        Textual runs it after the key has bubbled up to the app. When keys arrive together, over a slow line or from a
        script, the following keys would be in the text by then: "a Enter b" would send "ab".
        """
        self.before_binding()
        active = self.screen.active_bindings.get(key)
        if active is None or active.node not in (self, self.parent):
            return False
        return await self.app.run_action(active.binding.action, active.node)

    def on_paste(self, event: events.Paste) -> None:
        """Insert a short text, attach a long one. Line ends in it never send."""
        event.stop()
        event.prevent_default()
        self._insert(event.text)

    def action_paste(self) -> None:
        """Insert the app's clipboard."""
        self._insert(self.app.clipboard)

    def _insert(self, pasted: str) -> None:
        text = harmless(pasted)
        if is_long(text):
            self._attach_long(text)
        elif text:
            self.insert_text(text)
