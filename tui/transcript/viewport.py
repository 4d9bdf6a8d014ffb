"""Scrolling: which part of the virtual list is visible, and following the end."""

from collections.abc import Callable

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.widget import Widget

from tui.transcript.strips import GUTTER
from tui.transcript.styles import TranscriptStyles
from tui.transcript.virtual_list import LinePosition, VirtualList

_MAX_COLUMNS = 100  # longer lines are hard to read
_MIN_COLUMNS = 10


class Viewport:
    """The view of `widget` on `list`, of which only the visible part is rendered.

    While `following` holds, the end stays in view: scrolling up ends it, scrolling to the end starts it.
    `on_following` is called when it changes.
    """

    def __init__(self, widget: ScrollView, on_following: Callable[[bool], object]) -> None:
        self.list = VirtualList(TranscriptStyles.plain(), _MAX_COLUMNS)
        self.following = True
        self._widget = widget
        self._on_following = on_following
        self._scrolling = False  # the viewport itself scrolls, not the user
        self._stale_styles = True

    def follow(self, following: bool) -> None:
        """Start or end following; nothing scrolls yet."""
        if following != self.following:
            self.following = following
            self._on_following(following)

    def styles_changed(self) -> None:
        """The theme may be another: read the styles before the next rendering."""
        self._stale_styles = True

    def restyle(self) -> bool:
        """Pass the theme's styles and the widget's width to the list; return whether they are others."""
        styles = TranscriptStyles.of(self._widget) if self._stale_styles else self.list.styles
        self._stale_styles = False
        width = min(_MAX_COLUMNS, max(_MIN_COLUMNS, self._widget.scrollable_size.width - GUTTER - 1))
        changed = styles != self.list.styles or width != self.list.width
        if changed:
            self.list.restyle(styles, width)
        return changed

    def restyle_if_stale(self) -> None:
        """Restyle after `styles_changed`."""
        if self._stale_styles:
            self.restyle()

    def top_line(self) -> LinePosition | None:
        """The line at the top of the view."""
        return self.list.position(self._widget.scroll_offset.y)

    def change(self, change: Callable[[], int]) -> None:
        """Change the list without moving the line at the top; `change` returns the first line that differs."""
        top = self.top_line()
        self.arrange(top, changed=change())

    def arrange(self, line: LinePosition | None, below: int = 0, changed: int = 0) -> None:
        """Scroll to the end when following, else to `line`, `below` the top; render what is visible.

        Lines above `changed` look as before.
        """
        height = self._widget.size.height
        if not height:
            return
        if self.restyle():
            changed = 0
        rows = self.list
        if self.following or line is None:
            rows.measure(rows.tops()[-1], height, 0)
            top = rows.tops()[-1] - height
        else:
            top = rows.measure(rows.y(line), below, height) - below
        self._scroll(top, changed)

    def scrolled(self, old: int, new: int) -> None:
        """The user scrolled. Visible lines move by as many lines as asked for, while heights become known."""
        height = self._widget.size.height
        if self._scrolling or old == new or not height:
            return
        if new >= self._widget.max_scroll_y:
            self.follow(True)
            self.arrange(None)
        elif 0 < old - new <= 2 * height:
            self._scroll(self.list.measure(old, old - new, height) - (old - new))
        else:
            self._scroll(self.list.measure(new, 0, height))

    def reveal(self, key: int) -> None:
        """Scroll as little as shows an entry, or the beginning of one larger than the view."""
        top, bottom = self.list.row_range(key)
        above, height = self._widget.scroll_offset.y, self._widget.size.height
        if above <= top and bottom <= above + height:
            return
        self.follow(False)
        if top < above or bottom - top >= height:
            self.arrange(self.list.position(top))
        else:
            self.arrange(self.list.position(bottom - 1), height - 1)

    def _scroll(self, top: int, changed: int = 0) -> None:
        """Have line `top` at the top, or the end at the bottom; repaint from the line `changed` on, or all if moved."""
        widget = self._widget
        total, height = self.list.tops()[-1], widget.size.height
        last = max(0, total - height)
        was = widget.scroll_offset.y
        self._scrolling = True
        if total != widget.virtual_size.height:  # set without a new layout of the whole screen, which nothing needs
            widget.set_reactive(Widget.virtual_size, Size(widget.scrollable_size.width, total))
            widget.vertical_scrollbar.window_virtual_size = total
        widget.scroll_target_y = widget.scroll_y = min(max(0, top), last)
        self._scrolling = False
        self.follow(max(0, top) >= last)  # `top` is negative where the list is lower than the view
        hidden = max(0, changed - was) if was == widget.scroll_offset.y else 0
        if hidden < height:
            widget.refresh(Region(0, hidden, widget.size.width, height - hidden))
