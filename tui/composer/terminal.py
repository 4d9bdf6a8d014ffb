"""Terminal input that Textual 8 misreads."""

import sys
from collections.abc import Iterable
from typing import ClassVar

from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.events import Key, Paste
from textual.message import Message

# Alt+Enter as most terminals send it, then Shift+Enter and Alt+Enter of xterm (modifyOtherKeys) and tmux
# (extended-keys), translated to kitty's protocol, which Textual knows. It reads the first as Enter, which would send.
_AS_KITTY = {"\x1b\r": "\x1b[13;3u", "\x1b[27;2;13~": "\x1b[13;2u", "\x1b[27;3;13~": "\x1b[13;3u"}


class TerminalInput(XTermParser):
    """Textual's parser, with pastes cut out before it looks for keys.

    Textual reads text after an escape character in a paste as keys, so that a pasted text could press Enter.
    """

    typed: ClassVar[str] = ""
    """Text typed before the first parser exists; that parser reads it first."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._paste: list[str] | None = None
        self._typed, TerminalInput.typed = TerminalInput.typed, ""

    def tick(self) -> Iterable[Message]:
        """The events that need no new input."""
        yield from self._ahead()
        yield from super().tick()

    def feed(self, data: str) -> Iterable[Message]:
        """The events in new input; "" is the end of the input."""
        yield from self._ahead()
        if self._paste is not None and data:
            yield from self._feed_paste(self._paste, data)
            return
        keys, begin, pasted = data.partition(BRACKETED_PASTE_START)
        if keys or not begin:
            yield from super().feed(keys)
        if begin:
            self._paste = []
            yield from self._feed_paste(self._paste, pasted)

    def _ahead(self) -> Iterable[Message]:
        typed, self._typed = self._typed, ""
        if typed:
            yield from self.feed(typed)

    def _feed_paste(self, paste: list[str], data: str) -> Iterable[Message]:
        paste.append(data)
        if BRACKETED_PASTE_END in "".join(paste[-len(BRACKETED_PASTE_END) :]):  # the mark may arrive split
            text, _, keys = "".join(paste).partition(BRACKETED_PASTE_END)
            self._paste = None
            yield Paste(text)
            if keys:
                yield from self.feed(keys)

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        return super()._sequence_to_key_events(_AS_KITTY.get(sequence, sequence), alt)


def use_terminal_input(typed: str = "") -> None:
    """Read the terminal with `TerminalInput`; call it before the app runs. `typed` is input that was read before.

    On Windows this replaces the parser of Textual's driver; elsewhere `tui.driver` uses `TerminalInput`.
    """
    TerminalInput.typed = typed
    if sys.platform == "win32":
        from textual.drivers import win32 as driver

        driver.XTermParser = TerminalInput  # type: ignore[attr-defined]
