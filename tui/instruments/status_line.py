"""The status line under the conversation."""

from pathlib import Path

from textual.content import Content
from textual.widget import Widget

from tui.core.activity import Activity
from tui.core.memory import Memory
from tui.instruments.metrics import glossary
from tui.instruments.numbers import Words
from tui.instruments.status_text import status_text


class StatusLine(Widget):
    """One line about what the model does now; a narrow one has fewer segments."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.tooltip = glossary("ttft", "itl", "mbu")
        self._shown: tuple[Activity, Memory | None] = (Activity(), None)
        self._line: Words = ()

    def show(self, activity: Activity, memory: Memory | None) -> None:
        """Show the current values."""
        self._shown = activity, memory
        line = status_text(activity, memory, self.content_size.width)
        if line != self._line:
            self._line = line
            self.refresh()

    def on_resize(self) -> None:
        """Show the segments that fit now."""
        self.show(*self._shown)

    def render(self) -> Content:
        """The last line."""
        return Content.assemble(*self._line)
