"""Tells widgets that their size is another where Textual does not."""

from collections.abc import Sequence

from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget


class ResizeNotifier:
    """Sends a Resize to each of some widgets that a new layout left with another size.

    Textual 8.2 sends one only where it sees the change, and it does not where anything is drawn between the change of
    a style and the layout after it: a conversation would stay broken for the width it had before a list opened.
    """

    def __init__(self, widgets: Sequence[Widget]) -> None:
        self._known = {widget: Size() for widget in widgets}

    def laid_out(self, _: Screen[None]) -> None:
        """To be called after each layout."""
        for widget, known in self._known.items():
            if (size := widget.size) != known:
                self._known[widget] = size
                widget.post_message(Resize(size, widget.virtual_size, widget.container_size))
