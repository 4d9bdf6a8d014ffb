"""Textual's driver for Linux and macOS, with a notice of the end of the input."""

import os
import selectors
from codecs import getincrementaldecoder
from contextlib import suppress

from textual._parser import ParseError
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from tui.composer.terminal import TerminalInput

_POLL_S, _MAX_BYTES = 0.1, 4096


class InputEnded(Message):
    """The terminal is gone: its input has ended."""


class TerminalDriver(LinuxDriver):
    """Reads keys with `TerminalInput`, and sends InputEnded when the terminal is gone.

    A terminal may go without a SIGHUP: if it does not control the process, or if the signal is not passed on. Reads
    then return nothing at once, and the loop of Textual 8.2.8 would spin.
    """

    def run_input_thread(self) -> None:
        """Read keys until the app or the terminal ends."""
        parser, decode = TerminalInput(self._debug), getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_POLL_S):
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
        """The bytes typed; none if the terminal is gone."""
        try:
            return os.read(self.fileno, _MAX_BYTES)
        except OSError:
            return b""
