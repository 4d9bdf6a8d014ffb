"""Input that is typed before the screen is ready."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

_MAX_BYTES = 1 << 16


@contextmanager
def early_input() -> Iterator[str]:
    """A context in which the terminal neither echoes keys nor turns Enter into a line feed, the key for a new line.

    Yields what was typed before the context, while Python started, with its line feeds as Enter. Afterwards the
    terminal is as it was, as Textual restores the state that it finds.
    """
    try:
        import termios
    except ImportError:  # Windows, whose console does neither
        yield ""
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    keys = termios.tcgetattr(terminal)
    keys[0] &= ~termios.ICRNL
    keys[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(terminal, termios.TCSANOW, keys)
    try:
        yield waiting_input(terminal).replace("\n", "\r")
    finally:
        with suppress(termios.error):  # the window was closed meanwhile
            termios.tcsetattr(terminal, termios.TCSANOW, before)


def waiting_input(terminal: int) -> str:
    """The input that can be read without waiting, with line feeds as line ends."""
    if sys.platform == "win32":
        import msvcrt

        return waiting_keys(msvcrt)
    read = b""
    while select.select([terminal], [], [], 0)[0] and (more := os.read(terminal, _MAX_BYTES)):
        read += more
    return read.decode(errors="replace")


class WindowsConsole(Protocol):
    """What is used of Python's module msvcrt."""

    def kbhit(self) -> bool:
        """Whether a key was pressed that nobody has read."""

    def getwch(self) -> str:
        """The character of the next key, which is not echoed; of a key without one, the first of two."""


def waiting_keys(console: WindowsConsole) -> str:
    """The keys that were pressed at a console of Windows and that nobody has read, with Enter as a line feed."""
    typed = ""
    while console.kbhit():
        key = console.getwch()
        if key in "\0\xe0" and console.kbhit():  # a key without a character, such as an arrow
            console.getwch()
        else:
            typed += key
    return typed.replace("\r", "\n")
