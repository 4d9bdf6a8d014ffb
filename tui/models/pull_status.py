"""The pull that runs: its progress, how it ended, and a button to stop it."""

from contextlib import suppress

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Button, ProgressBar, Static

from edgellm.fmt import printable
from tui.models.pull import Pull

_TICK_S = 0.1


class PullStatus(Horizontal):
    """Runs one pull at a time, shown as a line and a bar; hidden while there is nothing to show."""

    class Ended(Message):
        """The pull ended: the model is complete, or the pull failed or was stopped."""

        def __init__(self, pull: Pull) -> None:
            super().__init__()
            self.pull = pull

    def __init__(self) -> None:
        super().__init__()
        self.pull: Pull | None = None
        self._ticker: Timer | None = None

    def compose(self) -> ComposeResult:
        """The line, the bar, and the button."""
        yield Static(markup=False)
        yield ProgressBar(total=1, show_eta=False, show_percentage=False)
        yield Button("Stop", compact=True)

    def on_mount(self) -> None:
        """Leave the keys to the filter."""
        self.query_one(Button).can_focus = False
        self.display = False
        self._ticker = self.set_interval(_TICK_S, self._show_progress, pause=True)

    def on_unmount(self) -> None:
        """Stop the pull, whose progress would no longer be shown."""
        if self.pull:
            self.pull.stop()

    def begin(self, reference: str) -> None:
        """Start a pull."""
        self.pull = Pull(reference, self._post_ended)
        self.pull.start()
        self._show_progress()
        if self._ticker:
            self._ticker.resume()

    @on(Button.Pressed)
    def _pressed(self, message: Button.Pressed) -> None:
        message.stop()
        self.stop()

    def stop(self) -> None:
        """Stop the pull; the downloaded part is kept."""
        if self.pull:
            self.pull.stop()
            self._show_progress()

    @property
    def stoppable(self) -> bool:
        """Whether a pull runs that is not being stopped."""
        return self.pull is not None and not self.pull.stopping

    def say(self, text: str, problem: bool = False) -> None:
        """Show a line in place of the progress."""
        self._show(text, runs=False, bar=False)
        self.query_one(Static).set_class(problem, "problem")

    def _post_ended(self, pull: Pull) -> None:
        """Called in the pull's thread, which may outlive the screen and its loop."""
        with suppress(RuntimeError):
            self.post_message(self.Ended(pull))

    @on(Ended)
    def _ended(self) -> None:
        self.pull = None
        self.refresh_bindings()
        if self._ticker:
            self._ticker.pause()

    def _show_progress(self) -> None:
        if pull := self.pull:
            share = pull.share
            self._show(f"{pull.reference}: {pull}", runs=True, bar=share is not None and not pull.stopping)
            self.query_one(ProgressBar).update(progress=share or 0)
        self.refresh_bindings()

    def _show(self, text: str, runs: bool, bar: bool) -> None:
        self.display = bool(text)
        self.query_one(Static).update(printable(text, 1000))
        self.query_one(Static).remove_class("problem")
        self.query_one(ProgressBar).display = bar
        self.query_one(Button).display = runs
