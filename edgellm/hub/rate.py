"""The rate of a download, and the time that the rest will take."""

from collections import deque
from time import monotonic

from edgellm.fmt import duration, size

_WINDOW_S = 5.0


class DownloadRate:
    """The rate over the last five seconds. Another thread may read it while bytes arrive."""

    def __init__(self) -> None:
        self._done_of_total = (0, 1)
        self._recent = deque([(monotonic(), 0)])

    def progressed(self, done: int, total: int, received: int) -> None:
        """As `DownloadObserver.progressed`."""
        now = monotonic()
        self._done_of_total = (done, max(1, total))
        self._recent.append((now, received))
        while len(self._recent) > 2 and now - self._recent[0][0] > _WINDOW_S:
            self._recent.popleft()

    @property
    def share(self) -> float:
        """The share of the bytes that is here, from 0 to 1."""
        done, total = self._done_of_total
        return done / total

    @property
    def rate(self) -> float:
        """Bytes per second that arrive over the network."""
        since, before = self._recent[0]
        return (self._recent[-1][1] - before) / max(monotonic() - since, 1e-9)

    def __str__(self) -> str:
        """For a user: `54% of 1 GB · 4 MB/s · 1:55 left`."""
        (done, total), rate = self._done_of_total, self.rate
        left = f"{duration((total - done) / rate)} left" if rate else "waiting"
        return f"{done / total:.0%} of {size(total)} · {size(rate)}/s · {left}"
