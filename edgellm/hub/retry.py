"""When to retry a failed request, and when to give up."""

from edgellm.errors import EdgeLLMError
from edgellm.hub.observer import DownloadObserver
from edgellm.hub.watchdog import MIN_BYTES

_MAX_BACKOFF_S = 16.0
_MAX_RETRY_AFTER_S = 300.0


class TransientError(Exception):
    """A failure that may pass. `error` is raised in its place if it does not.

    `retry_after` are the seconds to wait before the next attempt, if the hub said how long.
    """

    def __init__(self, reason: str, error: EdgeLLMError, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.error, self.retry_after = reason, error, retry_after


class RetryPolicy:
    """Exponential backoff that gives up after `attempts` failures in a row.

    `received` is the number of bytes at the start. Progress ends a row of failures only if at least MIN_BYTES more
    arrived than ever before: a hub that fails after every few bytes, or starts over again and again, is given up.
    """

    def __init__(self, observer: DownloadObserver, attempts: int = 6, received: int = 0) -> None:
        self._observer, self._attempts, self._failures, self._most_received = observer, attempts, 0, received

    def progressed(self, received: int) -> None:
        """`received` bytes are there now."""
        if received >= self._most_received + MIN_BYTES:
            self._most_received, self._failures = received, 0

    def wait(self, failure: TransientError) -> None:
        """Sleep before the next attempt. Raises `failure.error` if there is none, or it would be in over 5 minutes."""
        self._failures += 1
        seconds = failure.retry_after
        if self._failures >= self._attempts or (seconds or 0) > _MAX_RETRY_AFTER_S:
            raise failure.error
        if seconds is None:
            seconds = min(2.0 ** (self._failures - 1), _MAX_BACKOFF_S)
        self._observer.retrying(failure.reason, seconds)
        self._observer.sleep(seconds)
