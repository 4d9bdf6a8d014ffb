"""How long to go on with a hub that fails: what to wait for, and when to give up."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from edgellm.errors import EdgeLLMError
from edgellm.hub.observer import DownloadObserver
from edgellm.hub.watchdog import MIN_BYTES

_RATE_LIMIT = re.compile(r"r=0;t=(\d{1,9})\b", re.ASCII)
_SECONDS = re.compile(r"\d{1,9}", re.ASCII)
_LONGEST_S = 16.0
_MOST_S = 300.0


class RetryPolicy:
    """Waits longer after each failure, and ends when `attempts` in a row have failed.

    `reached` are the bytes that are there at first. A hub that fails after every few bytes, or begins anew again and
    again, comes to an end as well: failures are counted anew only for more bytes than were ever there.
    """

    def __init__(self, observer: DownloadObserver, attempts: int = 6, reached: int = 0) -> None:
        self._observer, self._attempts, self._failures, self._furthest = observer, attempts, 0, reached

    def progressed(self, nbytes: int) -> None:
        """So many bytes are there now."""
        if nbytes >= self._furthest + MIN_BYTES:
            self._furthest, self._failures = nbytes, 0

    def wait(self, reason: str, error: EdgeLLMError, retry_after: float | None = None) -> None:
        """Wait before the next attempt, as long as the hub has `retry_after`. Raises `error` when it has been enough."""
        self._failures += 1
        if self._failures >= self._attempts or (retry_after or 0) > _MOST_S:
            raise error
        seconds = min(2.0 ** (self._failures - 1), _LONGEST_S) if retry_after is None else retry_after
        self._observer.retrying(reason, seconds)
        self._observer.sleep(seconds)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait by the header Retry-After, a number or a date (RFC 9110, 10.2.3); None if nothing tells.

    Without it by RateLimit, such as `"api";r=0;t=55`, which has seconds after `t=` (IETF draft of RateLimit headers).
    """
    given = headers.get("retry-after", "")
    if not given and (left := _RATE_LIMIT.search(headers.get("ratelimit", ""))):
        return float(left[1])
    with suppress(ValueError, TypeError, OverflowError):  # of a date without a time zone, of one in a far year
        if _SECONDS.fullmatch(given):
            return float(given)
        return max(0.0, (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds())
    return None
