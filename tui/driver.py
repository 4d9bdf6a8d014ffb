"""The driver of the terminal: Textual's own, but the end of the input ends the app."""

import os
import selectors
from codecs import getincrementaldecoder
from contextlib import suppress

from textual._parser import ParseError
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from tui.composer.terminal import TerminalInput

_LOOK_S, _MOST = 0.1, 4096


class InputEnded(Message):
    """There is nothing more to read, and nobody to show anything to."""


class TerminalDriver(LinuxDriver):
    """Reads keys with `TerminalInput`.

    A terminal may go without a SIGHUP: where it is not the one that controls the process, or where the signal is not
    passed on. It can then always be read and gives nothing, over which Textual's own loop (8.2.8) never rests.
    """

    def run_input_thread(self) -> None:
        """Read what is typed until the app ends, or the terminal does."""
        parser, decode = TerminalInput(self._debug), getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_LOOK_S):
                    if not (read := self._read()):
                        self.send_message(InputEnded())
                        break
                    for event in parser.feed(decode(read)):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
        with suppress(EOFError, ParseError):
            for _ in parser.feed(""):
                pass

    def _read(self) -> bytes:
        """What was typed; nothing where the terminal is gone."""
        try:
            return os.read(self.fileno, _MOST)
        except OSError:
            return b""
