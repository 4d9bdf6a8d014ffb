"""The part of the transcript that scrolls: what is visible, and following what is new."""

from collections.abc import Callable
from typing import Any

from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from tui.transcript.strips import GUTTER, gutter_line, selected_text, strip
from tui.transcript.styles import TranscriptStyles
from tui.transcript.virtual_list import LinePosition, VirtualList

_MEASURE = 100  # cells: longer lines are hard to read
_NARROWEST = 10


class VirtualListView(ScrollView, can_focus=True):
    """Shows a part of a column, of which only that part is rendered.

    While it is `following`, the end stays in view; this stops where the user scrolls up and begins again at the end.
    """

    ALLOW_SELECT = True

    selected: reactive[int | None] = reactive(None, init=False)
    """The key of the entry that is marked."""

    class Following(Message, namespace="transcript"):
        """The view begins to follow what is new, or stops."""

        def __init__(self, following: bool) -> None:
            super().__init__()
            self.following = following

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._list = VirtualList(TranscriptStyles.plain(), _MEASURE)
        self._stale = True  # whether the theme may have changed
        self._following = True
        self._placing = False  # whether the view itself scrolls, not the user
        self._painting = False
        self._base = Style.null()

    @property
    def following(self) -> bool:
        """Whether the end stays in view. Set it to go there."""
        return self._following

    @following.setter
    def following(self, following: bool) -> None:
        hold = self._hold()
        self._follow(following)
        self._arrange(hold)

    def _follow(self, following: bool) -> None:
        if following != self._following:
            self._following = following
            self.post_message(self.Following(following))

    def notify_style_update(self) -> None:
        """The theme may be another."""
        super().notify_style_update()
        self._stale = True

    def on_resize(self) -> None:
        """Break the lines anew; what is at the top stays there."""
        self._change(lambda: 0)

    def _change(self, change: Callable[[], int]) -> None:
        """Do something to the column, which differs from the returned line on, without moving what the user looks
        at."""
        hold = self._hold()
        self._arrange(hold, changed=change())

    def _hold(self) -> LinePosition | None:
        return self._list.place(self.scroll_offset.y)

    def _arrange(self, hold: LinePosition | None, below: int = 0, changed: int = 0) -> None:
        """Bring the end into view, or else the line to hold, to the top or `below` it; render what is visible."""
        height = self.size.height
        if not height:
            return
        if self._dress():
            changed = 0
        column = self._list
        if self._following or hold is None:
            column.settle(column.tops()[-1], height, 0)
            top = column.tops()[-1] - height
        else:
            top = column.settle(column.y(hold), below, height) - below
        self._place(top, changed)

    def _place(self, top: int, changed: int = 0) -> None:
        """Have this line of the column at the top, or the end at the bottom where it is beyond it. Above the line
        that `changed` nothing is painted, unless it moves."""
        total, height = self._list.tops()[-1], self.size.height
        last = max(0, total - height)
        was = self.scroll_offset.y
        self._placing = True
        if total != self.virtual_size.height:  # set without a new layout of the whole screen, which nothing here needs
            self.set_reactive(Widget.virtual_size, Size(self.scrollable_size.width, total))
            self.vertical_scrollbar.window_virtual_size = total
        self.scroll_target_y = self.scroll_y = min(max(0, top), last)
        self._placing = False
        self._follow(max(0, top) >= last)  # negative where the column is lower than the view
        hidden = max(0, changed - was) if was == self.scroll_offset.y else 0
        if hidden < height:
            self.refresh(Region(0, hidden, self.size.width, height - hidden))

    def _dress(self) -> bool:
        """Take the colours of the theme and the width of the widget; tell whether these are others."""
        styles = TranscriptStyles.of(self) if self._stale else self._list.styles
        self._stale = False
        width = min(_MEASURE, max(_NARROWEST, self.scrollable_size.width - GUTTER - 1))
        other = styles != self._list.styles or width != self._list.width
        if other:
            self._list.dress(styles, width)
        return other

    def scroll_to(self, x: float | None = None, y: float | None = None, **how: Any) -> None:
        """Scroll at once: on the way there the heights of what comes into view become known."""
        super().scroll_to(x, y, **how | {"animate": False})

    def action_scroll_end(self) -> None:
        """Go to the end and follow."""
        self.following = True

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Render what comes into view. What was in view moves by as many lines as were asked for."""
        super().watch_scroll_y(old_value, new_value)
        old, new, height = round(old_value), round(new_value), self.size.height
        if self._placing or old == new or not height:
            return
        if new >= self.max_scroll_y:
            self._follow(True)
            self._arrange(None)
        elif 0 < old - new <= 2 * height:
            self._place(self._list.settle(old, old - new, height) - (old - new))
        else:
            self._place(self._list.settle(new, 0, height))

    def render_lines(self, crop: Region) -> list[Strip]:
        """For the screen. The offsets that selecting with the mouse needs are left out: they cost more than the
        rest."""
        if self._stale:
            self._dress()
        self._base = self.rich_style
        self._painting = True
        try:
            return super().render_lines(crop)
        finally:
            self._painting = False

    def render_line(self, y: int) -> Strip:
        """A line of the view."""
        y += self.scroll_offset.y
        place = self._list.place(y)
        if place is None:
            return Strip.blank(self.size.width, self._base)
        line = gutter_line(self._list, place, self.selected)
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
