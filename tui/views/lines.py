"""A widget for any number of lines, which renders only the visible ones."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from rich.segment import Segment
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.views.wrapped import Line

STYLES = ("plain", "muted", "title", "key", "warning", "special", "system", "user", "assistant", "tool")
"""The names of styles, which are defined in `lines.tcss`."""

MakeLines = Callable[[int], Sequence[Line]]


class Lines(ScrollView, can_focus=True):
    """Lines of styled text, made for the current width. The sequence may make them on access."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"lines--{style}" for style in STYLES}

    def __init__(self, make: MakeLines = lambda width: (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._make = make
        self._lines: Sequence[Line] = ()

    def show(self, make: MakeLines) -> None:
        """Show other lines, scrolled to the beginning."""
        self._make = make
        self.scroll_home(animate=False)
        self._lay_out()

    def on_resize(self) -> None:
        """Make the lines for the new width."""
        self._lay_out()

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        if width > 0:
            self._lines = self._make(width)
            self.virtual_size = Size(width, len(self._lines))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Line `y` of the view."""
        place, base = self.scroll_offset.y + y, self.rich_style
        line = self._lines[place] if place < len(self._lines) else ()
        strip = Strip([Segment(text, self.get_component_rich_style(f"lines--{style}")) for text, style in line])
        return strip.adjust_cell_length(self.scrollable_content_region.width, base)
