"""The log screen: output of libraries, and errors with their tracebacks."""

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from edgellm.fmt import printable
from tui.binding import bind
from tui.clipboard import copy
from tui.views.lines import Lines
from tui.views.view import View
from tui.views.wrapped import wrapped

_TAIL = 256 << 10


class LogScreen(View):
    """The end of a log file, and its path."""

    HEADING = "Log"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("log.refresh", "r", "refresh_log", "Read again", "Read the log again"),
        bind("log.copy", "c", "copy", "Copy all", "Copy the log"),
    ]

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._text = ""

    def contents(self) -> ComposeResult:
        """The lines, and a line about the file."""
        yield Lines()
        yield Static(classes="about", markup=False)

    def on_mount(self) -> None:
        """Read the log."""
        self.action_refresh_log()

    def action_refresh_log(self) -> None:
        """Read the file again, and show its end."""
        lines, about = self.query_one(Lines), self.query_one(".about", Static)
        try:
            self._text, cut = _tail(self._path)
        except OSError as error:
            self._text, where = "", f"{error.strerror or error}: {self._path}"
        else:
            where = f"{'the end of ' if cut else ''}{self._path}; older lines are in {self._path.name}.1"
        about.update(printable(where, 600))
        lines.show(lambda width: wrapped([(self._text, "plain")], width))
        lines.call_after_refresh(lines.scroll_end, animate=False)

    def action_copy(self) -> None:
        """Copy the shown text."""
        copy(self.app, self._text, "the log")


def _tail(path: Path) -> tuple[str, bool]:
    """The end of a file, from the beginning of a line, and whether it was cut."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, 2) - _TAIL)
        file.seek(start)
        data = file.read()
    if start:
        data = data[data.find(b"\n") + 1 :]
    return data.decode(errors="replace").rstrip("\n").expandtabs(), start > 0
