"""The filter of the list of models."""

from typing import ClassVar

from textual.binding import BindingType
from textual.widgets import Input

from tui.binding import bind


class Filter(Input):
    """Takes all keys. Enter is handled here, too, so that it never overtakes the text typed before it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("models.choose", "enter", "submit", "Open or pull", "Open the model, or pull it")
    ]
