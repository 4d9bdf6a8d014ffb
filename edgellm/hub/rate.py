"""How fast files come, and how long the rest will take."""

from collections import deque
from time import monotonic

from edgellm.fmt import duration, size

_WINDOW_S = 5.0


class DownloadRate:
    """Is told of the bytes as they come, and may be looked at from another thread; the rate is of the last seconds."""

    def __init__(self) -> None:
        self._here = (0, 1)
        self._recent = deque([(monotonic(), 0)])

    def progressed(self, done: int, total: int, came: int) -> None:
        """As `Watcher.moved`."""
        now = monotonic()
        self._here = (done, max(1, total))
        self._recent.append((now, came))
        while len(self._recent) > 2 and now - self._recent[0][0] > _WINDOW_S:
            self._recent.popleft()

    @property
    def share(self) -> float:
        """How much is here, from 0 to 1."""
        done, total = self._here
        return done / total

    @property
    def rate(self) -> float:
        """Bytes per second. What was here before is no part of it."""
        since, before = self._recent[0]
        return (self._recent[-1][1] - before) / max(monotonic() - since, 1e-9)

    def __str__(self) -> str:
        """In words: `54% of 1 GB · 4 MB/s · 1:55 left`."""
        (done, total), rate = self._here, self.rate
        left = f"{duration((total - done) / rate)} left" if rate else "waiting"
        return f"{done / total:.0%} of {size(total)} · {size(rate)}/s · {left}"
