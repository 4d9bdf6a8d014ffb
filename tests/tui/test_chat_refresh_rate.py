"""The time between two refreshes of the screen, by their cost."""

import pytest

from tui.chat.refresh_rate import RefreshRate


@pytest.mark.parametrize("cost_s, wait_s", [(0.0005, 1 / 20), (0.002, 1 / 20), (0.004, 0.1), (0.008, 0.2), (1, 1 / 4)])
def test_looks_take_a_small_share_of_a_core_between_4_and_20_times_a_second(cost_s: float, wait_s: float) -> None:
    now = [100.0]
    pace, wait = RefreshRate(lambda: now[0]), 0.0
    for _ in range(30):
        now[0] += cost_s
        wait = pace.wait()
    assert wait == pytest.approx(wait_s, rel=0.01)


def test_one_long_pause_does_not_slow_it_down_for_long() -> None:
    now = [0.0]
    pace = RefreshRate(lambda: now[0])
    now[0] = 3600.0
    assert pace.wait() <= 1 / 4
    for _ in range(5):
        now[0] += 0.001
        last = pace.wait()
    assert last == 1 / 20
