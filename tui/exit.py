"""What ends the screen other than its person: the terminal is as it was before, and nothing is dumped on it."""

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress
from typing import ClassVar

from rich.console import RenderableType
from textual.app import App
from textual.driver import Driver

_log = logging.getLogger(__name__)


class ResilientApp(App[None]):
    """An app whose errors go to the log, and that leaves properly when it is asked to by a signal.

    When it has run, `broken` says in a few words what broke it, and `signalled` is the signal that ended it, if any.
    """

    _ENDING: ClassVar = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def __init__(self) -> None:
        super().__init__()
        self.broken = ""
        self.signalled: signal.Signals | None = None

    def on_load(self) -> None:
        """Listen to the signals that end programs: also to SIGHUP, when the terminal's window is closed."""
        with suppress(NotImplementedError):  # Windows has them not
            for number in self._ENDING:
                asyncio.get_running_loop().add_signal_handler(number, self._end, number)

    def _end(self, number: signal.Signals) -> None:
        self.signalled = number
        self.end()

    def end(self) -> None:
        """Leave at once, with nobody to ask."""
        self.keep()
        self.exit()

    def on_input_ended(self) -> None:
        """Leave: the terminal is gone."""
        self.end()

    def keep(self) -> None:
        """Save what is not saved yet."""

    def get_driver_class(self) -> type[Driver]:
        """Textual's driver, but for one that knows when the terminal is gone."""
        if sys.platform == "win32":
            return super().get_driver_class()
        from tui.driver import TerminalDriver

        return TerminalDriver

    def die_as_asked(self) -> None:
        """End the process by the signal that ended the app, so that whoever sent it sees that it did.

        Raises KeyboardInterrupt for SIGINT, which a command has an exit code for.
        """
        if self.signalled == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signalled is not None:
            signal.signal(self.signalled, signal.SIG_DFL)
            os.kill(os.getpid(), self.signalled)

    # Textual shows pages of a traceback, with the values of all variables: those are nobody else's business.

    def _fatal_error(self) -> None:
        error = self._exception
        self.broken = f"{type(error).__name__}: {' '.join(str(error).split())}"
        _log.critical("the screen broke", exc_info=error)
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """End because of an error of Textual's own."""
        self.broken = self.broken or "an error of the terminal's driver"
        for renderable in renderables:
            _log.critical("the screen broke: %s", "".join(part.text for part in self.console.render(renderable)))
        self._close_messages_no_wait()
