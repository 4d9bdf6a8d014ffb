"""Which connections the watchdog shuts down. The clock is simulated: each wait is a minute, in which bytes arrive."""

from threading import Event

import pytest

from edgellm.hub import watchdog
from edgellm.hub.watchdog import MIN_BYTES, Watchdog


class Minutes(Event):
    """A context that ends after some minutes."""

    def __init__(self, dog: Watchdog, came: list[int]) -> None:
        super().__init__()
        self.dog, self.came, self.over, self.waited = dog, list(came), Event(), list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0)
        if not self.came or self.dog.is_slow:
            self.set()
            self.over.set()
            return True
        self.dog.received(self.came.pop(0))
        return False


@pytest.mark.parametrize(
    ("came", "is_slow"),
    [
        ([], False),
        ([MIN_BYTES, MIN_BYTES, 5 * MIN_BYTES], False),
        ([0], True),
        ([MIN_BYTES - 1], True),
        ([100 * MIN_BYTES, MIN_BYTES - 1, 100 * MIN_BYTES], True),
    ],
)
def test_each_minute_counts(came: list[int], is_slow: bool) -> None:
    dog = Watchdog()
    dog._ended = minutes = Minutes(dog, came)
    with dog:
        assert minutes.over.wait(30)
    assert dog.is_slow is is_slow
    assert minutes.waited[0] == watchdog.WINDOW_S == 60
