"""A batch waits for requests that come back at once, and for no others."""

import pytest

from edgellm.generate.batching.arrivals import Arrivals
from edgellm.generate.batching.cancel_flag import CancelFlag

STEP_S = 0.02
"""Half of it is the wait."""


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def flag() -> CancelFlag:
    return CancelFlag(None)  # type: ignore[arg-type]


def test_a_request_that_was_given_a_token_is_waited_for_until_it_comes_or_ends(clock: Clock) -> None:
    arrivals, one, other = Arrivals(clock), flag(), flag()
    with arrivals.join(one):
        assert arrivals.wait_s() == 0, "it has not begun to decode"
        with arrivals.join(other):
            arrivals.give(one, STEP_S)
            arrivals.give(other, STEP_S)
            clock.now += 0.004
            assert arrivals.wait_s() == pytest.approx(0.006)
            arrivals.came(one)
            assert arrivals.wait_s() == pytest.approx(0.006)
            clock.now += 0.007
            assert arrivals.wait_s() == 0
        arrivals.give(one, STEP_S)
        assert arrivals.wait_s() == pytest.approx(0.01)
    assert arrivals.wait_s() == 0


def test_one_that_comes_late_is_not_waited_for_until_it_is_in_time_again(clock: Clock) -> None:
    arrivals, slow = Arrivals(clock), flag()
    with arrivals.join(slow):
        for away, waited in [(0.5, 0.0), (0.5, 0.0), (0.001, 0.01)]:
            arrivals.give(slow, STEP_S)
            clock.now += away
            arrivals.came(slow)
            arrivals.give(slow, STEP_S)
            assert arrivals.wait_s() == pytest.approx(waited)
            arrivals.came(slow)
            clock.now += 1


def test_requests_that_are_given_tokens_decode_at_present(clock: Clock) -> None:
    arrivals, one, other = Arrivals(clock), flag(), flag()
    with arrivals.join(one), arrivals.join(other):
        assert (arrivals.decode_rows(), arrivals.away()) == (0, 2)
        arrivals.came(one)
        arrivals.came(other)
        assert (arrivals.decode_rows(), arrivals.away()) == (0, 0)
        arrivals.give(one, STEP_S)
        arrivals.give(other, STEP_S)
        assert (arrivals.decode_rows(), arrivals.decode_rows(beside=one)) == (2, 1)
        assert arrivals.away() == 2
        arrivals.came(one)
        assert arrivals.away() == 1
        clock.now += 60
        assert arrivals.decode_rows() == 1, "the other is not read any more"
        assert (arrivals.decode_rows(beside=one), arrivals.away()) == (0, 0)
