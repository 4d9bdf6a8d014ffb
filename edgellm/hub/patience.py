"""How long to go on with a hub that fails: what to wait for, and when to give up."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from edgellm.errors import EdgeLLMError
from edgellm.hub.watcher import Watcher

_RATE_LIMIT = re.compile(r"r=0;t=(\d{1,9})\b", re.ASCII)
_LONGEST_S = 16.0
_MOST_S = 300.0


class Patience:
    """Waits longer after each failure, and ends when `attempts` in a row have failed."""

    def __init__(self, watcher: Watcher, attempts: int = 6) -> None:
        self._watcher, self._attempts, self._failures = watcher, attempts, 0

    def renew(self) -> None:
        """Something came: what fails next is counted anew."""
        self._failures = 0

    def wait(self, why: str, final: EdgeLLMError, told: float | None = None) -> None:
        """Wait before the next attempt, as long as the hub has `told`. Raises `final` when it has been enough."""
        self._failures += 1
        if self._failures >= self._attempts or (told or 0) > _MOST_S:
            raise final
        seconds = min(2.0 ** (self._failures - 1), _LONGEST_S) if told is None else told
        self._watcher.waiting(why, seconds)
        self._watcher.pause(seconds)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait by the header Retry-After, a number or a date (RFC 9110, 10.2.3); None if nothing tells.

    Without it by RateLimit, such as `"api";r=0;t=55`, which has seconds after `t=` (IETF draft of RateLimit headers).
    """
    given = headers.get("retry-after", "")
    if not given and (left := _RATE_LIMIT.search(headers.get("ratelimit", ""))):
        return float(left[1])
    with suppress(ValueError, TypeError, OverflowError):  # of a date without a time zone, of one in a far year
        if given.isascii() and given.isdigit():
            return float(given)
        return max(0.0, (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds())
    return None
