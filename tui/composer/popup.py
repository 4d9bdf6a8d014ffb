"""The list of completions above the input box."""

from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from edgellm.fmt import printable
from tui.composer.completion import CompletionItem, preselected, word_start
from tui.composer.editor import Editor

_MAX_ROWS = 8


class Popup(OptionList, can_focus=False):
    """Completions of the word at the cursor. The list overlays what is above the box, and never has the focus."""

    def __init__(self, editor: Editor) -> None:
        super().__init__(compact=True)
        self.completer: Callable[[str, int], Sequence[CompletionItem]] = lambda text, cursor: ()
        self.completions: Sequence[CompletionItem] = ()
        self.display = False
        self._editor = editor
        self._word = ""
        self._looked_at = ("", 0)
        self._closed_at: int | None = None
        self._not_typed: str | None = None

    @property
    def selected(self) -> CompletionItem | None:
        """The completion that Enter inserts."""
        return None if self.highlighted is None else self.completions[self.highlighted]

    def look_up(self) -> None:
        """Update the list for the word at the cursor. The selection stays while the list is the same."""
        text, cursor = self._editor.text, self._editor.cursor
        if text == self._not_typed or (text, cursor) == self._looked_at:
            return
        self._not_typed = None
        self._looked_at = (text, cursor)
        start = word_start(text, cursor)
        self._word = text[start:cursor]
        if self._closed_at != start or not text:
            self._closed_at = None
        found = () if self._closed_at is not None else self.completer(text, cursor)
        if found != self.completions:
            self._show(found, preselected(found, text, self._word))

    def rest(self) -> None:
        """Hide until the user types: the current text was set by the program (recalled, edited, or a draft)."""
        self._not_typed, self._closed_at, self._looked_at = self._editor.text, None, ("", 0)
        if self.completions:
            self._show((), None)

    def close(self) -> None:
        """Hide until another word is begun."""
        self._closed_at = word_start(self._editor.text, self._editor.cursor)
        self._show((), None)

    def move(self, step: int) -> None:
        """Move the selection, wrapping around at the ends."""
        last = len(self.completions) - 1
        at = self.highlighted if self.highlighted is not None else (-1 if step > 0 else last + 1)
        self.highlighted = 0 if at + step > last else last if at + step < 0 else at + step

    def take(self, completion: CompletionItem, after: str = "") -> None:
        """Insert a completion, followed by `after`."""
        self._editor.insert_text(completion.text + after, len(self._word))
        self.look_up()

    def _show(self, completions: Sequence[CompletionItem], selected: int | None) -> None:
        self.completions = completions
        self._editor.menu_open = self.display = bool(completions)
        self.clear_options()
        self.add_options(self._rows())
        self.highlighted = selected
        rows = max(1, min(len(completions), _MAX_ROWS, self._room))
        self.styles.max_height, self.styles.offset = rows, (0, -rows)

    @property
    def _room(self) -> int:
        """The rows of the screen above the box."""
        return self.parent.region.y if isinstance(self.parent, Widget) else 0

    def _rows(self) -> list[Option]:
        names = [printable(each.shown or each.text.rstrip(), 400) for each in self.completions]
        width = max((cell_len(name) for name in names), default=0)
        rows = zip(names, self.completions, strict=True)
        return [Option(Content.assemble(set_cell_size(name, width), "  ", (each.help, "dim"))) for name, each in rows]
