"""The base of screens over the conversation: a frame, with the keys below."""

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
    """A screen with a frame. Subclasses have a `HEADING`, and `contents` for the frame."""

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
        """The widgets in the frame."""
        yield from ()

    def show_later(self, event: Event) -> None:
        """Call `show_event` once this screen is mounted, if it is still open then."""
        self.call_later(lambda: self.show_event(event) if self in self.app.screen_stack else None)

    def show_event(self, event: Event) -> None:
        """Show an event of the chat controller or its worker."""

    def attempt(self, act: Callable[[], object]) -> None:
        """Call `act`, and show its EdgeLLMError as a notification."""
        try:
            act()
        except EdgeLLMError as error:
            self.notify(str(error), severity="error", markup=False)

    def action_close(self) -> None:
        """Back to the conversation."""
        self.dismiss()
