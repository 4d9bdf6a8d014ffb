"""Run the chat for many turns in a terminal, and measure what it costs: `python tests/soak_chat.py [TURNS [RATE]]`.

A model that writes RATE tokens per second (200) answers TURNS messages (500) in the real app behind a pseudo-terminal;
meanwhile keys are pressed. Printed are: the time from a key to its character on the screen; the longest time that the
screen's loop was busy with one thing; the app's share of a core, the model's thread left out, as CPU time; and the
memory over the turns. To save time, replies are short but for every tenth one.
"""

import os
import pty
import re
import select
import struct
import sys
import tempfile
from fcntl import ioctl
from pathlib import Path
from statistics import quantiles
from termios import TIOCSWINSZ
from time import monotonic

SIZE = (40, 120)
_KEYS = "the quick brown fox jumps over the lazy dog "


class Terminal:
    """A program behind a pseudo-terminal; `output` is what came since it was last emptied."""

    def __init__(self, command: list[str]) -> None:
        self.output = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)
        ioctl(self._fd, TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))

    def write(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def read(self, wait: float) -> str:
        """What comes next, as soon as it comes."""
        if not select.select([self._fd], [], [], wait)[0]:
            return ""
        try:
            return os.read(self._fd, 1 << 16).decode(errors="replace")
        except OSError:
            return ""

    def until(self, pattern: str, seconds: float) -> float:
        """Read until the pattern has come; the seconds that took. Raises TimeoutError."""
        seen, begun = "", monotonic()
        while not re.search(pattern, seen):
            if monotonic() - begun > seconds:
                raise TimeoutError(f"{pattern} never came; the end of what did: {seen[-2000:]!r}")
            seen = (seen + self.read(0.05))[-100_000:]
        return monotonic() - begun


def main(turns: int, rate: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        app = Terminal([sys.executable, str(Path(__file__).with_name("soak_app.py")), folder, str(turns), str(rate)])
        waits = _press_keys(app, report)
        print(report.read_text())
        cuts = quantiles(waits, n=100)
        print(
            f"{len(waits)} keys: p50 {cuts[49] * 1e3:.1f} ms, p95 {cuts[94] * 1e3:.1f} ms, worst {max(waits) * 1e3:.1f} ms"
        )


def _press_keys(app: Terminal, report: Path) -> list[float]:
    """Press a key some times a second until the app has ended; how long each took to be seen."""
    waits, at = [], 0
    while not report.exists():
        key = _KEYS[at % len(_KEYS)]
        at += 1
        while app.read(0.0):
            pass
        begun = monotonic()
        app.write(key)
        if key != " " and not report.exists():
            waits.append(_until_drawn(app, key, begun, report))
        while monotonic() - begun < 0.23:
            app.read(0.02)
    os.waitpid(app.pid, 0)
    return [wait for wait in waits if wait]


def _until_drawn(app: Terminal, key: str, begun: float, report: Path) -> float:
    """Wait for the key's character alone, followed by the cursor: a cell in reverse."""
    seen = ""
    while monotonic() - begun < 5 and not report.exists():
        seen += app.read(0.01)
        if re.search(rf"{key}(?:\x1b\[[0-9;]*m)* ", seen):
            return monotonic() - begun
    return 0.0


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500, float(sys.argv[2]) if len(sys.argv) > 2 else 200)
