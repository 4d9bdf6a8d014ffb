"""The picker: choose a model of this machine, or pull one."""

from contextlib import suppress
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Footer, Input, Static

from edgellm.fmt import printable
from tui.binding import LEAVE, bind
from tui.models.catalog import ModelCatalog
from tui.models.filter import Filter
from tui.models.model_list import ModelList
from tui.models.pull import Pull
from tui.models.pull_status import PullStatus
from tui.models.row import ModelRow
from tui.models.typed_name import typed_row

_TICK_S = 0.1


class ModelsScreen(ModalScreen[str | None]):
    """Dismissed with the MODEL that was chosen, or None; a pull that runs is then stopped, and what has come kept."""

    CSS_PATH: ClassVar = ["screen.tcss", "model_list.tcss", "pull_status.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "models.stop",
            "escape",
            "stop_pull",
            "Stop",
            "Stop the pull; what has come is kept, and the next one goes on with it",
        ),
        bind("models.close", "escape", "leave", "Close", "Back to the conversation"),
        Binding("f3", "leave", show=False),
        LEAVE,
        bind("models.up", "up", "move('cursor_up')", "Up", "The model above", show=False),
        bind("models.down", "down", "move('cursor_down')", "Down", "The model below", show=False),
        bind("models.page_up", "pageup", "move('page_up')", "Page up", "A page up", show=False),
        bind("models.page_down", "pagedown", "move('page_down')", "Page down", "A page down", show=False),
    ]

    class Read(Message):
        """More rows are known."""

        def can_replace(self, message: Message) -> bool:
            """One look is enough for all of them."""
            return isinstance(message, type(self))

    class PullEnded(Message):
        """A pull ended, however it did."""

        def __init__(self, pull: Pull) -> None:
            super().__init__()
            self.pull = pull

    def __init__(self, current: str | None = None) -> None:
        super().__init__()
        self._current = current
        self._catalog = ModelCatalog(lambda: self._tell(self.Read()))
        self._pull: Pull | None = None
        self._arrived: str | None = None
        self._ticker: Timer | None = None

    def compose(self) -> ComposeResult:
        """The parts of the screen."""
        with Vertical(id="models") as frame:
            frame.border_title = "Models"
            yield Filter(placeholder="type to filter, or ORG/NAME to pull from Hugging Face")
            yield ModelList(self._current)
            yield Static(id="models-about", markup=False)
            yield PullStatus()
            yield Footer()

    def on_mount(self) -> None:
        """Stand; only then look for models."""
        self._ticker = self.set_interval(_TICK_S, self._look_at_pull, pause=True)
        self.call_after_refresh(self._catalog.read)

    def on_unmount(self) -> None:
        """A pull goes no further without anyone to see it."""
        if self._pull:
            self._pull.stop()

    # The list

    @on(Read)
    @on(Input.Changed)
    def _fill(self) -> None:
        typed = self.query_one(Filter).value.strip()
        rows = [row for row in self._catalog.rows if row.matches(typed)]
        self.query_one(ModelList).show([*rows, *typed_row(typed, rows)], looking=not self._catalog.complete)
        for row in rows:
            if row.name == self._arrived and not row.offered:
                self._welcome(row)

    def _welcome(self, row: ModelRow) -> None:
        """Point at what was pulled, once the list has it."""
        self._arrived = None
        self.query_one(ModelList).point_at(row.name)
        next_step = f"but cannot be opened: {row.problem}" if row.problem else "Enter opens it"
        self.query_one(PullStatus).say(f"{printable(row.name, 400)} is here, {next_step}", problem=bool(row.problem))

    @on(ModelList.Pointed)
    def _pointed(self, message: ModelList.Pointed) -> None:
        self.query_one("#models-about", Static).update(_about(message.row))

    @on(ModelList.Chosen)
    def _clicked(self, message: ModelList.Chosen) -> None:
        self._choose(message.row)

    def action_move(self, action: str) -> None:
        """Point at another row."""
        self.query_one(ModelList).move(action)

    @on(Input.Submitted)
    def _entered(self) -> None:
        if row := self.query_one(ModelList).row:
            self._choose(row)

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)

    def _choose(self, row: ModelRow) -> None:
        if row.problem:
            self.app.bell()
        elif row.offered:
            self._begin_pull(row.name)
        else:
            if self._pull:
                self.notify(f"{self._pull.reference} was stopped; what has come is kept", markup=False)
            self.dismiss(row.name)

    # Pulling

    def _begin_pull(self, reference: str) -> None:
        if self._pull:
            self.notify(f"{self._pull.reference} is still coming; Esc stops it", markup=False)
            return
        self._pull = Pull(reference, lambda pull: self._tell(self.PullEnded(pull)))
        self._pull.start()
        self._look_at_pull()
        if self._ticker:
            self._ticker.resume()

    @on(PullStatus.Stop)
    def action_stop_pull(self) -> None:
        """Stop the pull that runs."""
        if self._pull:
            self._pull.stop()
            self._look_at_pull()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Escape stops a pull that runs, and closes where there is none."""
        runs = self._pull is not None and not self._pull.stopping
        return {"stop_pull": runs, "leave": not runs}.get(action, True)

    def _look_at_pull(self) -> None:
        if self._pull:
            self.query_one(PullStatus).show(self._pull)
        self.refresh_bindings()

    @on(PullEnded)
    def _pull_ended(self, message: PullEnded) -> None:
        self._pull = None
        self._look_at_pull()
        if self._ticker:
            self._ticker.pause()
        pull, line = message.pull, self.query_one(PullStatus)
        if pull.name:
            self._arrived = pull.name
            line.say(f"{pull.name} is here")
            self.query_one(Filter).value = ""
        else:
            line.say(pull.problem or f"{pull.reference}: stopped; what has come is kept", problem=bool(pull.problem))
        self._catalog.read()

    def _tell(self, message: Message) -> None:
        """Post a message from a thread, which may be there longer than the screen and its loop."""
        with suppress(RuntimeError):
            self.post_message(message)


def _about(row: ModelRow | None) -> str:
    """More about a row than its line has room for."""
    if row is None:
        return "nothing here is called so; ORG/NAME pulls a model from Hugging Face"
    return "\n".join(printable(text, 400) for text in (row.name, row.problem or row.note) if text)
