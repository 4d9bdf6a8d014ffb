"""A field with a few values, changed by the arrow keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.binding import bind


class ChoiceField(Widget, can_focus=True):
    """Shows the chosen value; an empty value means the default, which `placeholder` names."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("choice.before", "left", "step(-1)", "Before", "The value before", show=False),
        bind("choice.next", "right,space", "step(1)", "Next", "The next value", show=False),
    ]

    @dataclass
    class ValueChosen(Message):
        """Another value was chosen."""

        value: str

    def __init__(self, values: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._values = ("", *values)
        self._value = self._placeholder = ""

    @property
    def value(self) -> str:
        """The chosen value. Setting it posts no message."""
        return self._value

    @value.setter
    def value(self, value: str) -> None:
        self._value = value
        self.refresh()

    @property
    def placeholder(self) -> str:
        """The text shown while no value is chosen."""
        return self._placeholder

    @placeholder.setter
    def placeholder(self, placeholder: str) -> None:
        self._placeholder = placeholder
        self.refresh()

    def action_step(self, step: int) -> None:
        """Choose the value `step` further."""
        self.value = self._values[(self._values.index(self._value) + step) % len(self._values)]
        self.post_message(self.ValueChosen(self._value))

    def on_click(self, event: events.Click) -> None:
        """The left end steps back, the rest forward."""
        self.action_step(-1 if event.x < 2 else 1)

    def render(self) -> Content:
        """The value between arrows."""
        middle = (self._value, "") if self._value else (self._placeholder, "$text-muted")
        return Content.assemble(("‹ ", "$text-accent"), middle, (" ›", "$text-accent"))
