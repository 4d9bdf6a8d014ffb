"""Run the chat for many turns in a terminal, and measure what it costs: `python -m support.soak_chat [TURNS [RATE]]`.

A model that writes RATE tokens per second (200) answers TURNS messages (500) in the real app behind a pseudo-terminal;
meanwhile keys are pressed. Printed are: the time from a key to its character on the screen; the longest time that the
screen's loop was busy with one thing; the app's share of a core, the model's thread left out, as CPU time; and the
memory over the turns. To save time, replies are short but for every tenth one.
"""

import os
import pty
import select
import struct
import sys
import tempfile
from codecs import getincrementaldecoder
from fcntl import ioctl
from pathlib import Path
from statistics import quantiles
from termios import TIOCSWINSZ
from time import monotonic

from support import with_support

SIZE = (40, 120)
_KEYS = "αβγδεζηθικλμνξοπρστυφχψωбгджзийлпфцчшщъыьэюя"  # each once, and nowhere else on the screen
_EMPTY_THE_BOX = "\x15"


class Terminal:
    """A program behind a pseudo-terminal."""

    def __init__(self, command: list[str]) -> None:
        self._decoder = getincrementaldecoder("utf-8")()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, with_support())
        ioctl(self._fd, TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))

    def write(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def read(self, wait: float) -> str:
        """What comes next, as soon as it comes."""
        if not select.select([self._fd], [], [], wait)[0]:
            return ""
        try:
            return self._decoder.decode(os.read(self._fd, 1 << 16))
        except OSError:
            return ""

    def drain(self, seconds: float) -> None:
        """Read what comes for some time, and then what is there."""
        end = monotonic() + seconds
        while self.read(max(0.0, end - monotonic())) or monotonic() < end:
            pass


def soak(folder: Path, turns: int, rate: float) -> tuple[str, list[float]]:
    """What the app reports, and how many seconds each key took to be seen."""
    report = folder / "report"
    app = Terminal([sys.executable, "-m", "support.soak_app", str(folder), str(turns), str(rate)])
    waits = _press_keys(app, report)
    return report.read_text(), waits


def main(turns: int, rate: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report, waits = soak(Path(folder), turns, rate)
        print(report)
        p50, p95 = (quantiles(waits, n=100)[at] * 1e3 for at in (49, 94))
        print(f"{len(waits)} keys: p50 {p50:.1f} ms, p95 {p95:.1f} ms, worst {max(waits) * 1e3:.1f} ms")


def _press_keys(app: Terminal, report: Path) -> list[float]:
    """Press a key some times a second until the app has ended; how long each took to be seen."""
    waits, at = [], 0
    while not report.exists():
        at = (at + 1) % len(_KEYS)
        if at == 0:
            app.write(_EMPTY_THE_BOX)
            app.drain(0.5)
        app.drain(0.0)
        begun = monotonic()
        app.write(_KEYS[at])
        waits.append(_until_drawn(app, _KEYS[at], begun, report))
        app.drain(begun + 0.23 - monotonic())
    os.waitpid(app.pid, 0)
    return [wait for wait in waits if wait]


def _until_drawn(app: Terminal, key: str, begun: float, report: Path) -> float:
    """The seconds until the key's character comes; 0 if it does not."""
    while monotonic() - begun < 5 and not report.exists():
        if key in app.read(0.01):
            return monotonic() - begun
    return 0.0


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500, float(sys.argv[2]) if len(sys.argv) > 2 else 200)
