"""What is typed before the screen stands."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def typed_ahead() -> Iterator[None]:
    """Let the terminal keep keys as they are, Enter among them, and show none: for as long as the screen is prepared.

    Otherwise Enter would have become a line feed by then, which is the key for a new line. Afterwards the terminal is
    as it was: what Textual then finds is what it goes back to in the end.
    """
    try:
        import termios
    except ImportError:  # Windows, where the console keeps keys anyway
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    keys = termios.tcgetattr(terminal)
    keys[0] &= ~termios.ICRNL
    keys[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(terminal, termios.TCSANOW, keys)
    try:
        yield
    finally:
        with suppress(termios.error):  # the window was closed meanwhile
            termios.tcsetattr(terminal, termios.TCSANOW, before)
