"""Where one types in the picker."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class Filter(Input):
    """Takes all that is typed. Enter comes from here, and so never before what was typed ahead of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Open or pull", id="models.choose")]
