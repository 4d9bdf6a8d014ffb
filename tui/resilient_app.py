"""An app that restores the terminal and prints no traceback, whatever ends it."""

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
    """Writes its errors to the log, and ends in order on a signal or when the terminal is closed.

    After `run`, `crash` names the error that ended the app, if any, and `end_signal` the signal, if any.
    """

    _SIGNALS: ClassVar = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def __init__(self) -> None:
        super().__init__()
        self.crash = ""
        self.end_signal: signal.Signals | None = None

    def on_load(self) -> None:
        """Handle the signals that end programs; SIGHUP comes when the window of the terminal is closed."""
        with suppress(NotImplementedError):  # on Windows
            for number in self._SIGNALS:
                asyncio.get_running_loop().add_signal_handler(number, self._end_by_signal, number)

    def _end_by_signal(self, number: signal.Signals) -> None:
        self.end_signal = number
        self.end()

    def end(self) -> None:
        """Save, and end without asking."""
        self.save()
        self.exit()

    def on_input_ended(self) -> None:
        """End, as the terminal is gone."""
        self.end()

    def save(self) -> None:
        """Save what is not saved yet."""

    def get_driver_class(self) -> type[Driver]:
        """Textual's driver; except on Windows, one that notices when the terminal is gone."""
        if sys.platform == "win32":
            return super().get_driver_class()
        from tui.driver import TerminalDriver

        return TerminalDriver

    def reraise_signal(self) -> None:
        """End the process by the signal that ended the app, so that its parent process sees that signal.

        Raises KeyboardInterrupt for SIGINT, for which the command line has an exit code.
        """
        if self.end_signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.end_signal is not None:
            signal.signal(self.end_signal, signal.SIG_DFL)
            os.kill(os.getpid(), self.end_signal)

    # Textual prints pages of a traceback with the values of all variables, which may be private.

    def _fatal_error(self) -> None:
        error = self._exception
        self.crash = f"{type(error).__name__}: {' '.join(str(error).split())}"
        _log.critical("the screen broke", exc_info=error)
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """End because of an error of Textual's own."""
        self.crash = self.crash or "an error of the terminal's driver"
        for renderable in renderables:
            _log.critical("the screen broke: %s", "".join(part.text for part in self.console.render(renderable)))
        self._close_messages_no_wait()
