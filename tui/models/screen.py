"""The screen to choose a model of this machine, or to pull one."""

from contextlib import suppress
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from edgellm.fmt import printable
from tui.binding import LEAVE, bind
from tui.models.catalog import ModelCatalog
from tui.models.filter import Filter
from tui.models.model_list import ModelList
from tui.models.pull_status import PullStatus
from tui.models.row import ModelRow
from tui.models.source import THIS_MACHINE, ModelSource


class ModelsScreen(ModalScreen[str | None]):
    """Dismissed with the chosen MODEL, or None. A running pull is stopped then; its downloaded part is kept."""

    CSS_PATH: ClassVar = ["screen.tcss", "model_list.tcss", "pull_status.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "models.stop",
            "escape",
            "stop_pull",
            "Stop",
            "Stop the pull; the downloaded part is kept, and the next pull resumes",
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
        """The catalog has more rows."""

        def can_replace(self, message: Message) -> bool:
            """One refresh is enough for all of them."""
            return isinstance(message, type(self))

    def __init__(self, current: str | None = None, source: ModelSource = THIS_MACHINE) -> None:
        super().__init__()
        self._current, self._source = current, source
        self._catalog = ModelCatalog(self._post_read, source.find)
        self._arrived: str | None = None

    def compose(self) -> ComposeResult:
        """The filter, the list, a line about the highlighted model, and the pull."""
        with Vertical(id="models") as frame:
            frame.border_title = "Models"
            yield Filter(placeholder=self._source.placeholder)
            yield ModelList(self._current, self._source.title)
            yield Static(id="models-about", markup=False)
            yield PullStatus()
            yield Footer()

    def on_mount(self) -> None:
        """Look for models once the screen is shown."""
        self.call_after_refresh(self._catalog.read)

    def _post_read(self) -> None:
        """Called in the catalog's thread, which may outlive the screen and its loop."""
        with suppress(RuntimeError):
            self.post_message(self.Read())

    @on(Read)
    @on(Input.Changed)
    def _fill(self) -> None:
        typed = self.query_one(Filter).value.strip()
        rows = [row for row in self._catalog.rows if row.matches(typed)]
        self.query_one(ModelList).show([*rows, *self._source.typed(typed, rows)], looking=not self._catalog.complete)
        for row in rows:
            if row.name == self._arrived and not row.offered:
                self._welcome(row)

    def _welcome(self, row: ModelRow) -> None:
        """Highlight the pulled model, once the list has it."""
        self._arrived = None
        self.query_one(ModelList).point_at(row.name)
        next_step = f"but cannot be opened: {row.problem}" if row.problem else "Enter opens it"
        self.query_one(PullStatus).say(f"{printable(row.name, 400)} is here, {next_step}", problem=bool(row.problem))

    @on(ModelList.Pointed)
    def _pointed(self, message: ModelList.Pointed) -> None:
        self.query_one("#models-about", Static).update(self._about(message.row))

    @on(ModelList.Chosen)
    def _clicked(self, message: ModelList.Chosen) -> None:
        self._choose(message.row)

    @on(Input.Submitted)
    def _entered(self) -> None:
        if row := self.query_one(ModelList).row:
            self._choose(row)

    def _choose(self, row: ModelRow) -> None:
        status = self.query_one(PullStatus)
        if row.problem:
            self.app.bell()
        elif row.offered and status.pull:
            self.notify(f"{status.pull.reference} is still coming; Esc stops it", markup=False)
        elif row.offered:
            status.begin(row.name)
        else:
            if status.pull:
                self.notify(f"{status.pull.reference} was stopped; the downloaded part is kept", markup=False)
            self.dismiss(row.name)

    @on(PullStatus.Ended)
    def _pull_ended(self, message: PullStatus.Ended) -> None:
        pull, status = message.pull, self.query_one(PullStatus)
        if pull.name:
            self._arrived = pull.name
            status.say(f"{pull.name} is here")
            self.query_one(Filter).value = ""
        else:
            status.say(
                pull.problem or f"{pull.reference}: stopped; the downloaded part is kept", problem=bool(pull.problem)
            )
        self._catalog.read()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Escape stops a pull that runs, else closes the screen."""
        runs = any(status.stoppable for status in self.query(PullStatus))
        return {"stop_pull": runs, "leave": not runs}.get(action, True)

    def action_move(self, action: str) -> None:
        """Highlight another row."""
        self.query_one(ModelList).move(action)

    def action_stop_pull(self) -> None:
        """Stop the pull that runs."""
        self.query_one(PullStatus).stop()

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)

    def _about(self, row: ModelRow | None) -> str:
        """The full name of a model, and its note or problem."""
        if row is None:
            return self._source.advice
        return "\n".join(printable(text, 400) for text in (row.name, row.problem or row.note) if text)
