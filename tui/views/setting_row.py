"""The row of a setting: name, editable value, default, and what is wrong with the value."""

from collections.abc import Callable
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Label

from edgellm.errors import OptionError
from tui.views.choice_field import ChoiceField


class SettingRow(Vertical):
    """An editable setting. Invalid text stays, and a line below says what is wrong."""

    @dataclass
    class Left(Message):
        """The user left this row, or chose another value in it."""

        row: "SettingRow"

    def __init__(
        self, label: str, about: str, parse: Callable[[str], object] | None = None, choices: tuple[str, ...] = ()
    ) -> None:
        """`parse` raises OptionError for invalid text."""
        super().__init__()
        self.about, self._shown = about, ""
        self._label, self._parse = label, parse
        self._editor = ChoiceField(choices) if choices else Input(compact=True)
        self._default = Label(classes="default", markup=False)
        self._problem = Label(classes="problem", markup=False)

    def compose(self) -> ComposeResult:
        """The line of the setting, a line for an error, and an explanation if there is room."""
        with Horizontal():
            yield Label(self._label, classes="name", markup=False)
            yield self._editor
            yield self._default
        yield self._problem
        yield Label(self.about, classes="help", markup=False)

    @property
    def text(self) -> str:
        """The typed or chosen value; empty means the default. Setting it posts no message."""
        return self._editor.value.strip()

    @text.setter
    def text(self, text: str) -> None:
        self._editor.value = text

    @property
    def wrong(self) -> str:
        """What is wrong with the text, or ""."""
        try:
            if self.text and self._parse:
                self._parse(self.text)
        except OptionError as error:
            return str(error)
        return ""

    def show(self, value: str, default: str, source: str) -> None:
        """Show the value (empty if not set), the default and its source. Text being typed stays."""
        untouched = self.text == self._shown
        if not self.wrong and (untouched or not self.has_focus_within):
            self.text = value
        self._shown = value
        self._editor.placeholder = default
        self._default.update(f"default {default}{f', {source}' if source else ''}")

    def on_descendant_focus(self) -> None:
        """Mark the row. A class, since a rule for `:focus-within` is not applied to the other widgets in the row."""
        self.add_class("focused")

    def on_descendant_blur(self) -> None:
        """Unmark the row."""
        self.remove_class("focused")

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        message.stop()
        self._problem.update(self.wrong)
        self._problem.display = bool(self.wrong)

    @on(Input.Submitted)
    def _next(self, message: Input.Submitted) -> None:
        message.stop()
        self.screen.focus_next()

    @on(Input.Blurred)
    @on(ChoiceField.ValueChosen)
    def _done(self, message: Message) -> None:
        message.stop()
        self.post_message(self.Left(self))
