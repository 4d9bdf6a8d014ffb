"""Input that is typed before the screen is ready."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
    """The input that can be read without waiting."""
    read = b""
    while select.select([terminal], [], [], 0)[0] and (more := os.read(terminal, _MAX_BYTES)):
        read += more
    return read.decode(errors="replace")
