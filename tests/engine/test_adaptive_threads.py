"""The number of threads of a decode step: all of them, unless other programs make fewer faster."""

from collections.abc import Callable
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from edgellm.engine.adaptive_threads import AdaptiveThreads, TimeSample

STEP = 1 / 64
"""Seconds, exactly."""


class Cores:
    """Steps on pretended cores: `seconds` of a step with n threads, and `lost`, the cores that n threads do not get."""

    def __init__(self, most: int, seconds: Callable[[int], float], lost: Callable[[int], float]) -> None:
        self.adaptive, self.seconds, self.lost = AdaptiveThreads(most), seconds, lost
        self.clock, self.cpu, self.kind = 1000.0, 50.0, "steps of one row"

    def run(self, seconds: float) -> list[tuple[int, int]]:
        """Run steps for some seconds: (threads, consecutive steps with this number of threads), in order."""
        end, used = self.clock + seconds, []
        while self.clock < end:
            used.append(threads := self.adaptive.threads)
            start, seconds_of_step = TimeSample(self.clock, self.cpu), self.seconds(threads)
            self.clock += seconds_of_step
            self.cpu += seconds_of_step * (threads - self.lost(threads))
            self.adaptive.record_step(self.kind, start, TimeSample(self.clock, self.cpu))
        return [(threads, len(list(steps))) for threads, steps in groupby(used)]


def busy(threads: int) -> Cores:
    """Beside one busy program on two cores, as measured: two threads take twice as long as one."""
    return Cores(threads, lambda n: STEP if n == 1 else 2 * STEP, lambda n: 0.0 if n == 1 else 1.1)


def test_all_threads_are_used_without_other_programs() -> None:
    cores = Cores(4, lambda n: STEP / n, lambda n: 0.3)
    assert cores.run(10) == [(4, 10 * 4 / STEP)]


def test_fewer_threads_are_used_where_faster_and_all_are_tried_again_less_and_less_often() -> None:
    used = busy(2).run(60)
    assert [threads for threads, _ in used] == [2, 1] * (len(used) // 2)
    assert {steps for threads, steps in used if threads == 2} == {4}
    # Each choice is kept for half a second, then twice as long each time, up to four; a window has seven steps.
    for (_, steps), hold in zip(used[1:12:2], (0.5, 1, 2, 4, 4, 4), strict=True):
        assert hold < steps * STEP < hold + 0.3


def test_all_threads_are_used_again_when_the_other_program_ends() -> None:
    cores = busy(2)
    cores.run(20)
    cores.seconds, cores.lost = lambda n: STEP / n, lambda n: 0.0
    cores.run(4.5)  # as long as a choice is kept at most, and the steps of the next trial
    assert cores.run(10) == [(2, 10 * 2 / STEP)]
    cores.seconds, cores.lost = busy(2).seconds, busy(2).lost
    (_, watched), (_, kept), *_ = cores.run(3)
    assert watched <= 10
    assert kept * STEP < 0.8, "after an undisturbed time a choice is kept for a short time again"


def test_a_trial_that_was_slower_ends_and_is_repeated_less_and_less_often() -> None:
    used = Cores(2, lambda n: STEP / n, lambda n: 0.8).run(30)
    assert {steps for threads, steps in used if threads == 1} == {7}, "a tenth of a second"
    assert len(used) // 2 <= 3 + 30 / 4


def test_the_best_of_many_threads_is_found_step_by_step() -> None:
    # Three busy programs on eight cores: with six threads or more, one shares its core with them.
    cores = Cores(8, lambda n: STEP if n > 5 else STEP / n, lambda n: 0.6 * max(0, n - 5) + 0.1)
    used = cores.run(3)
    assert [threads for threads, _ in used[:4]] == [8, 6, 5, 8]
    assert {threads for threads, _ in used} == {8, 6, 5}, "five run undisturbed"
    assert sum(steps for threads, steps in used if threads == 5) > 0.7 * sum(steps for _, steps in used)


def test_one_thread_stays_one() -> None:
    assert Cores(1, lambda n: STEP, lambda n: 0.9).run(10) == [(1, 10 / STEP)]


def test_steps_of_another_kind_are_not_compared() -> None:
    cores = busy(2)
    assert [threads for threads, _ in cores.run(5 * 2 * STEP)] == [2, 1]
    cores.kind = "steps of eight rows"
    assert {threads for threads, _ in cores.run(3.5)} == {1}, "the trial waits for steps of its kind"
    assert [threads for threads, _ in cores.run(0.55)] == [1, 2], "which have not come for four seconds"
    cores = busy(2)
    for kind in range(100):
        cores.kind = str(kind)
        assert [threads for threads, _ in cores.run(STEP)] == [2]


def test_alternating_kinds_of_steps_are_timed_apart() -> None:
    """As steps with drafted tokens do, which take longer: in itself that says nothing about the number of threads."""
    cores, used = busy(2), list[int]()
    one_row = cores.seconds
    for i in range(600):
        rows = 8 if i % 3 == 2 else 1
        cores.kind, cores.seconds = f"steps of {rows} rows", lambda n, rows=rows: (1 + rows / 8) * one_row(n)
        used += [threads for threads, _ in cores.run(STEP / 2)]
    assert used.count(1) > 0.85 * len(used)


STEPS = st.lists(st.tuples(st.integers(0, 1), st.floats(0, 2), st.floats(0, 20)), max_size=200)


@given(st.integers(1, 9), STEPS)
def test_it_stays_between_one_and_all(most: int, steps: list[tuple[int, float, float]]) -> None:
    adaptive, now = AdaptiveThreads(most), TimeSample(0.0, 0.0)
    for kind, clock, cpu in steps:
        then = TimeSample(now.clock + clock, now.cpu + cpu)
        adaptive.record_step(kind, now, then)
        now = then
        assert 1 <= adaptive.threads <= most
