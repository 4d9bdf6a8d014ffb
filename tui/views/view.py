"""A screen over the conversation: a frame, with the keys below."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer

from edgellm.errors import EdgeLLMError
from tui.binding import LEAVE, bind
from tui.core.events import Event


class View(ModalScreen[None]):
    """The base of the screens here. Subclasses have a `HEADING` and say what is in the frame."""

    CSS_PATH: ClassVar = ["view.tcss"]
    HEADING: ClassVar[str] = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("view.close", "escape", "close", "Close", "Back to the conversation"),
        LEAVE,
    ]

    def compose(self) -> ComposeResult:
        """The frame."""
        with Vertical(id="frame") as frame:
            frame.border_title = self.HEADING
            yield from self.contents()
            yield Footer(show_command_palette=False)

    def contents(self) -> ComposeResult:
        """What is in the frame, over the keys."""
        yield from ()

    def hear(self, event: Event) -> None:
        """Pass an event on to `heard` as soon as this screen stands, if it then still does."""
        self.call_later(lambda: self.heard(event) if self in self.app.screen_stack else None)

    def heard(self, event: Event) -> None:
        """The desk or its worker told something."""

    def attempt(self, act: Callable[[], object]) -> None:
        """Do it; what cannot be done is told."""
        try:
            act()
        except EdgeLLMError as error:
            self.notify(str(error), severity="error", markup=False)

    def action_close(self) -> None:
        """Back to the conversation."""
        self.dismiss()
