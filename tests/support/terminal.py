"""A terminal without a window: a program runs in it, keys go in, and what it shows can be read."""

import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from time import monotonic
from typing import Any

import pyte

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "ctrl+b": "\x02",
    "ctrl+c": "\x03",
    "ctrl+n": "\x0e",
    "ctrl+p": "\x10",
    "ctrl+q": "\x11",
    "ctrl+r": "\x12",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f3": "\x1bOR",
    "alt+left": "\x1b[1;3D",
    "alt+right": "\x1b[1;3C",
}
_ALTERNATE = 1049
_PAUSE_S = 0.015
_PRIVATE = 5  # pyte keeps private modes shifted so far


class _Screen(pyte.Screen):
    """pyte's screen, with the second one that programs for the whole screen switch to."""

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        if _ALTERNATE in modes and kwargs.get("private"):
            self._first = deepcopy(self.buffer), deepcopy(self.cursor)
            self.erase_in_display(2)
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*modes, **kwargs)
        if _ALTERNATE in modes and kwargs.get("private"):
            hidden = self.cursor.hidden
            self.buffer, self.cursor = self._first
            self.cursor.hidden = hidden


class Terminal:
    """A program in a terminal of its own, as its session's leader.

    Of one that does not control the program no signal comes when it goes.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        env: Mapping[str, str],
        columns: int = 100,
        rows: int = 30,
        controls: bool = True,
    ) -> None:
        self.master, slave = os.openpty()
        termios.tcsetwinsize(slave, (rows, columns))
        self.sane = termios.tcgetattr(slave)
        self.screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=os.environ | {"TERM": "xterm-256color"} | dict(env),
            preexec_fn=(lambda: os.login_tty(slave)) if controls else None,
            start_new_session=not controls,
        )
        self.written = b""
        self._slave = slave  # kept, so that what is left of the terminal can be looked at

    # What it shows

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def modes(self) -> set[int]:
        """The private modes that are set."""
        return {mode >> _PRIVATE for mode in self.screen.mode if mode >> _PRIVATE}

    @property
    def attributes(self) -> list[Any]:
        """How the terminal treats lines, echo and signals."""
        return termios.tcgetattr(self._slave)

    def until(self, true: str | Callable[[], object], seconds: float = 120) -> None:
        """Wait until a text is shown, or something is true."""
        end = monotonic() + seconds
        while not (true in self.text if isinstance(true, str) else true()):
            assert monotonic() < end, f"waited for {true}, and this is shown:\n{self.text}"
            self.read(0.05)

    def read(self, seconds: float) -> None:
        """Take what comes, for so long, and then to the end of a frame: until nothing comes for a moment."""
        end = monotonic() + seconds
        while select.select([self.master], [], [], max(_PAUSE_S, end - monotonic()))[0]:
            data = os.read(self.master, 1 << 16)
            self.written += data
            self._stream.feed(data)

    # What is done to it

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self.master, text.encode())

    def press(self, *keys: str) -> None:
        """Press keys by their names."""
        for key in keys:
            self.type(KEYS[key])
            self.read(0.15)  # an escape and a letter at once would be another key

    def say(self, text: str) -> None:
        """Type a line, and Enter."""
        self.type(text)
        self.read(0.15)
        self.press("enter")

    def resize(self, columns: int, rows: int) -> None:
        """Give it another size."""
        self.screen.resize(rows, columns)
        termios.tcsetwinsize(self.master, (rows, columns))

    def signal(self, number: int) -> None:
        """Send the program a signal."""
        os.kill(self.process.pid, number)

    def wait(self, seconds: float = 60) -> int:
        """Wait for its end; the exit code, or minus the signal that killed it."""
        self.until(lambda: self.process.poll() is not None, seconds)
        self.read(0.1)
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the window."""
        for descriptor in {self.master, self._slave} - {-1}:
            os.close(descriptor)
        self.master = self._slave = -1

    def close(self) -> None:
        """End the program if it has not ended, and close the window."""
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
        self.hang_up()


@contextmanager
def chat_in_terminal(
    *arguments: str | Path,
    home: Path,
    columns: int = 100,
    rows: int = 30,
    program: Sequence[str] = ("-m", "edgellm"),
    controls: bool = True,
    **env: str,
) -> Iterator[Terminal]:
    """`edgellm chat` with these arguments, keeping what it keeps in `home`; `program` is what Python runs for it."""
    command = [sys.executable, *program, "chat", *arguments]
    terminal = Terminal(command, {"EDGELLM_HOME": str(home), **env}, columns, rows, controls)
    try:
        yield terminal
    finally:
        terminal.close()
