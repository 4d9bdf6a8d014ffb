"""The log of a server, written by a thread of its own: a request never waits for a slow reader of stderr."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

MOST_WAITING = 1000
"""Lines that wait to be written; further ones are left out."""

_LAST_S = 1.0
"""Seconds for the lines that are left at the end."""


class LogWriter:
    """Writes lines with `write`. To be closed at the end."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._lines, self._lost = write, SimpleQueue[str | None](), 0
        self._thread = Thread(target=self._run, name="edgellm log", daemon=True)
        self._thread.start()

    def __call__(self, line: str) -> None:
        """Write a line soon, or leave it out if too many wait."""
        if self._lines.qsize() >= MOST_WAITING:
            self._lost += 1
        else:
            self._lines.put(line)

    def close(self) -> bool:
        """Write the rest; False if that does not come to an end."""
        self._lines.put(None)
        self._thread.join(_LAST_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            lost, self._lost = self._lost, 0
            self._write(line)
            if lost:
                self._write(f"{lost} lines of the log are left out here: stderr is read too slowly")
