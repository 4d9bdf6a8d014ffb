"""What is typed before the screen stands."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_MOST = 1 << 16


@contextmanager
def early_input() -> Iterator[str]:
    """Let the terminal keep keys as they are, Enter among them, and show none: for as long as the screen is prepared.

    Otherwise Enter would have become a line feed by then, which is the key for a new line. Gives what was typed before,
    while Python started, with Enter where a line feed is. Afterwards the terminal is as it was: what Textual then finds
    is what it goes back to in the end.
    """
    try:
        import termios
    except ImportError:  # Windows, where the console keeps keys anyway
        yield ""
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    keys = termios.tcgetattr(terminal)
    keys[0] &= ~termios.ICRNL
    keys[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(terminal, termios.TCSANOW, keys)
    try:
        yield _waiting(terminal).replace("\n", "\r")
    finally:
        with suppress(termios.error):  # the window was closed meanwhile
            termios.tcsetattr(terminal, termios.TCSANOW, before)


def _waiting(terminal: int) -> str:
    """What can be read at once."""
    read = b""
    while select.select([terminal], [], [], 0)[0] and (more := os.read(terminal, _MOST)):
        read += more
    return read.decode(errors="replace")
