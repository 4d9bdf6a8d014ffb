"""Sends the Resize events that Textual omits."""

from collections.abc import Sequence

from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget


class ResizeNotifier:
    """Sends a Resize to each of the given widgets whose size a layout changed.

    Textual 8.2 misses a change if anything is drawn between the change of a style and the layout after it: the lines
    of a conversation would stay wrapped for the width before the list of chats opened.
    """

    def __init__(self, widgets: Sequence[Widget]) -> None:
        self._known = {widget: Size() for widget in widgets}

    def on_layout(self, _: Screen[None]) -> None:
        """Compare the sizes; called after each layout."""
        for widget, known in self._known.items():
            if (size := widget.size) != known:
                self._known[widget] = size
                widget.post_message(Resize(size, widget.virtual_size, widget.container_size))
