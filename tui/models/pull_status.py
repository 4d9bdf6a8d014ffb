"""How far a pull is, and how the last one ended."""

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Button, ProgressBar, Static

from edgellm.fmt import printable
from tui.models.pull import Pull


class PullStatus(Horizontal):
    """A line and a bar; nothing while there is nothing to say."""

    class Stop(Message):
        """The button was pressed."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield Static(markup=False)
        yield ProgressBar(total=1, show_eta=False, show_percentage=False)
        yield Button("Stop", compact=True)

    def on_mount(self) -> None:
        """Keys belong to the filter."""
        self.query_one(Button).can_focus = False
        self.display = False

    def show(self, pull: Pull) -> None:
        """Show a pull that runs."""
        share = pull.share
        self._say(f"{pull.reference}: {pull}", runs=True, bar=share is not None and not pull.stopping)
        self.query_one(ProgressBar).update(progress=share or 0)

    def say(self, text: str, problem: bool = False) -> None:
        """Show a line in its place."""
        self._say(text, runs=False, bar=False)
        self.query_one(Static).set_class(problem, "problem")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Pass it on."""
        event.stop()
        self.post_message(self.Stop())

    def _say(self, text: str, runs: bool, bar: bool) -> None:
        self.display = bool(text)
        self.query_one(Static).update(printable(text, 1000))
        self.query_one(Static).remove_class("problem")
        self.query_one(ProgressBar).display = bar
        self.query_one(Button).display = runs
