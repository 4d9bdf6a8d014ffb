"""Where one types in the picker."""

from typing import ClassVar

from textual.binding import BindingType
from textual.widgets import Input

from tui.binding import bind


class Filter(Input):
    """Takes all that is typed. Enter comes from here, and so never before what was typed ahead of it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("models.choose", "enter", "submit", "Open or pull", "Open the model, or get it")
    ]
