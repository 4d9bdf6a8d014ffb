"""Batches that are killed at any moment: `python -m support.batch_kills IN OUT TIMES`.

One process imports the code, and forks for each run, so that a run takes as long as its requests.
"""

import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from edgellm.batch.figures import Figures
from edgellm.batch.run import BatchSettings, run

LOAD = {"threads": 1}
MOST_BYTES = 3000
"""Bytes that a run adds to the journal at most before it is killed: those of some answers."""


class Silent:
    """Progress that nobody sees."""

    def compiling(self, done: int, total: int) -> None:
        pass

    def uploading(self, done: int, total: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def advanced(self, figures: Figures) -> None:
        pass


def settings_of(source: Path, out: Path, parallel: int = 4) -> BatchSettings:
    return BatchSettings("builtin", str(source), out, LOAD, parallel)


def _forked(source: Path, out: Path, parallel: int) -> int:
    """The process of a run."""
    if child := os.fork():
        return child
    try:
        run(settings_of(source, out, parallel), Figures(), Silent())
    finally:
        os._exit(0)


def kill_at_random_moments(source: Path, out: Path, times: int) -> None:
    """Begin a batch so many times, each killed at another moment. Prints how many answers were there then.

    A moment is that in which the journal has a number of bytes more than before, which a slow machine does not change,
    and a random time behind it.
    """
    journal = settings_of(source, out).journal
    for number in range(times):
        moment = random.Random(number)
        size, child = _size(journal) + moment.randrange(MOST_BYTES), _forked(source, out, 1 + number % 5)
        while _size(journal) < size and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.002)
        time.sleep(moment.uniform(0, 0.02))
        with suppress(ProcessLookupError, ChildProcessError):  # it was at its end
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        print(journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0, flush=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


if __name__ == "__main__":
    kill_at_random_moments(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
