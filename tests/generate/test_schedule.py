"""Which tokens a batch computes: steps of replies first, then prompts in their order, within a time."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.engine.protocol import Segment
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.batching.computation import Computation
from edgellm.generate.batching.schedule import LEAST_ROWS, SLO_ITL, Schedule
from support.stateless import Sequence


def waiting(tokens: int, since: float = 0.0, is_step: bool = False, before: int = 0) -> Computation:
    sequence = Sequence()
    sequence.tokens = [1] * before
    made = Computation(Segment(sequence, [1] * tokens, [tokens - 1]), CancelFlag(None), is_step)  # type: ignore[arg-type]
    made.since = since
    return made


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 8), max_size=20),
    st.lists(st.integers(1, 100), max_size=5),
    st.integers(16, 300),
    st.booleans(),
)
def test_a_batch_has_all_that_it_may(steps: list[int], prompts: list[int], most: int, shared: bool) -> None:
    each_step = [waiting(n, is_step=True) for n in steps]
    each_prompt = [waiting(n) for n in prompts]
    chosen = Schedule().choose([*each_prompt, *each_step], most, shared)
    rows = sum(count for _, count in chosen)
    of_prompts = sum(count for each, count in chosen if not each.is_step)
    assert rows <= most
    assert all(count == each.left if each.is_step else 0 < count <= each.left for each, count in chosen)
    assert len({id(each) for each, _ in chosen}) == len(chosen)
    assert bool(chosen) == bool(steps or prompts)
    if prompts:
        assert of_prompts > 0
    if not shared and sum(steps) + sum(prompts) <= most:
        assert rows == sum(steps) + sum(prompts)


Machine = Callable[[int, int, int], float]
"""Seconds of a batch of so many rows of steps and of a prompt, with so many tokens before them."""


def computed(
    schedule: Schedule, machine: Machine, steps: int, tokens: int, before: int = 0, alone: int = 5
) -> list[tuple[int, float]]:
    """Of each batch that computes a prompt beside steps: its tokens of the prompt, and its seconds.

    Before them there are `alone` batches of steps.
    """
    found = []
    for _ in range(alone):
        schedule.record(steps, [], machine(steps, 0, 0))
    while tokens:
        decoding = [waiting(1, is_step=True) for _ in range(steps)]
        *_, (_, rows) = schedule.choose([*decoding, waiting(tokens, before=before)], 256, True)
        seconds = machine(steps, rows, before)
        schedule.record(steps, [(rows, before)], seconds)
        found.append((rows, seconds))
        tokens, before = tokens - rows, before + rows
    return found


def of(step_s: float, row_s: float, cell_s: float = 0.0) -> Machine:
    def seconds(steps: int, rows: int, before: int) -> float:
        return (step_s if steps else 0.0) + rows * (row_s + cell_s * (before + rows / 2))

    return seconds


@pytest.mark.parametrize("row_s", [0.0002, 0.0005, 0.001, 0.002])
@pytest.mark.parametrize("attention", [0.0, 0.25, 0.5])
def test_batches_take_the_time_that_they_may(row_s: float, attention: float) -> None:
    """So does none of the first ones, of a machine that is not known, and none at the end, where a token takes longer.

    `attention` is the time of a thousand cells relative to the rest of a token.
    """
    cell_s = attention * row_s / 1000
    batches = computed(Schedule(), of(0.04, row_s, cell_s), 4, 3000)
    assert max(seconds for _, seconds in batches) < 1.15 * SLO_ITL
    assert all(seconds > 0.6 * SLO_ITL or rows == 252 for rows, seconds in batches[10:-1])
    assert len(computed(Schedule(), of(0.04, row_s, cell_s), 4, 256)) < 40


def test_what_is_known_of_one_prompt_holds_for_the_next_ones() -> None:
    schedule, machine = Schedule(), of(0.04, 0.001, 1e-6)
    computed(schedule, machine, 4, 3000)
    for before in (0, 4000, 500, 3000):
        assert computed(schedule, machine, 4, 200, before)[0][1] < 1.2 * SLO_ITL


@pytest.mark.parametrize("slo_itl", [0.05, 0.1, 0.4])
def test_the_time_of_a_batch_is_an_option(slo_itl: float) -> None:
    batches = computed(Schedule(slo_itl=slo_itl), of(0.02, 0.0005), 4, 2000)
    assert 0.8 * slo_itl < max(seconds for _, seconds in batches) < 1.05 * slo_itl or batches[9][0] == 252


def test_where_steps_take_all_the_time_prompts_get_half_as_much() -> None:
    batches = computed(Schedule(), of(0.6, 0.01), 4, 500)
    assert all(0.7 < seconds < 0.95 for _, seconds in batches[3:-1])


def test_where_several_prompts_wait_a_batch_may_take_three_times_as_long() -> None:
    schedule, machine = Schedule(), of(0.04, 0.001)
    computed(schedule, machine, 4, 3000)
    decoding = [waiting(1, is_step=True) for _ in range(4)]
    alone = schedule.choose([*decoding, waiting(2000)], 256, True)
    for rows in (150, 250):
        schedule.record(4, [(rows, 0)], machine(4, rows, 0))
    beside = schedule.choose([*decoding, waiting(2000), waiting(2000)], 256, True)
    assert 0.8 * SLO_ITL < machine(4, alone[-1][1], 0) < 1.2 * SLO_ITL
    assert 2.5 * SLO_ITL < machine(4, beside[-1][1], 0) < 3.1 * SLO_ITL


@pytest.mark.parametrize(("row_s", "rows"), [(0.004, 12), (0.02, 4)])
def test_prompts_fill_sixteen_rows_where_that_delays_replies_by_less_than_the_limit(row_s: float, rows: int) -> None:
    batches = computed(Schedule(), of(0.09, row_s), 4, 300)
    assert {count for count, _ in batches[10:-1]} == {rows}


def test_a_machine_that_becomes_slower_has_smaller_batches() -> None:
    schedule = Schedule()
    computed(schedule, of(0.04, 0.0005), 4, 1000)
    batches = computed(schedule, of(0.04, 0.003), 4, 2000)
    assert max(seconds for _, seconds in batches[:8]) > 1.2 * SLO_ITL, "it was not known"
    assert max(seconds for _, seconds in batches[8:]) < 1.3 * SLO_ITL


@pytest.mark.parametrize(("step_s", "row_s"), [(0.095, 0.001), (0.2, 0.0025), (0.2, 0.0005)])
def test_prompts_get_their_part_of_a_machine_that_becomes_slower_though_no_batch_has_steps_alone(
    step_s: float, row_s: float
) -> None:
    """And when it is as fast again as before, they get as much again."""
    schedule, before = Schedule(), of(0.04, 0.0005)
    computed(schedule, before, 4, 1000)
    batches = computed(schedule, of(step_s, row_s), 4, 2000, alone=0)
    assert all(rows >= 20 and seconds < 1.5 * step_s for rows, seconds in batches[5:-1])
    batches = computed(schedule, before, 4, 4000, alone=0)
    assert all(rows >= 76 and seconds < SLO_ITL for rows, seconds in batches[30:-1])


def test_one_disturbed_batch_changes_little() -> None:
    schedule, machine = Schedule(), of(0.04, 0.0005)
    before = computed(schedule, machine, 4, 2000)[-2][0]
    schedule.record(4, [(before, 0)], 9.0)
    assert computed(schedule, machine, 4, 500)[0][0] > before / 2


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_part_of_a_group_of_rows_is_left_out(random: Random, steps: int) -> None:
    """Unless the prompt ends."""
    batches = computed(Schedule(), of(0.03, random.uniform(0.0005, 0.004)), steps, 700)
    assert all((steps + rows) % 8 == 0 for rows, _ in batches[:-1])


def order(policy: str, *prompts: Computation) -> list[int]:
    """The prompts in the order in which a batch of one row each takes them."""
    schedule, left = Schedule(policy), list(prompts)
    schedule.record(0, [(100, 0)], 1.0)
    found = []
    while left:
        first, _ = schedule.choose(left, 1, False)[0]
        found.append(prompts.index(first))
        left.remove(first)
    return found


def test_the_order_of_prompts() -> None:
    long, short, new = waiting(1000, since=0), waiting(100, since=1), waiting(50, since=2)
    assert order("fcfs", new, short, long) == [2, 1, 0]
    assert order("srpt", long, short, new) == [1, 2, 0]


def test_a_long_prompt_does_not_wait_for_ever() -> None:
    assert order("srpt", waiting(1000, since=0), waiting(100, since=11)) == [0, 1]


class Queue:
    """Prompts on a machine that computes a hundred tokens a second; its clock is the time that batches take."""

    def __init__(self, policy: str) -> None:
        self.now, self.schedule = 0.0, Schedule(policy)
        self.schedule.record(0, [(100, 0)], 1.0)
        self.waiting: list[Computation] = []
        self.first: list[Computation] = []  # in the order of their first tokens
        self.ended: dict[Computation, float] = {}

    def come(self, tokens: int) -> Computation:
        self.waiting.append(waiting(tokens, since=self.now))
        return self.waiting[-1]

    def compute(self) -> None:
        chosen = self.schedule.choose(self.waiting, 16, True)
        for each, rows in chosen:
            self.first += [each] if each not in self.first else []
            each.sequence.tokens += [1] * rows
            each.done += rows
            self.now += rows / 100
            if not each.left:
                self.ended[each] = self.now
                self.waiting.remove(each)


@settings(deadline=None)
@given(st.integers(50, 500), st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_no_prompt_starves_under_a_stream_of_shorter_ones(tokens: int, stream: list[int]) -> None:
    """There is always a shorter prompt; the long one begins at the latest when it has waited as long as it takes."""
    queue = Queue("srpt")
    long = queue.come(tokens)
    for i in range(10_000):
        if len(queue.waiting) < 3:
            queue.come(min(tokens - 1, stream[i % len(stream)]))
        queue.compute()
        if long in queue.ended:
            break
    assert queue.ended[long] < 2.5 * tokens / 100 + 3


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 80), st.booleans()), min_size=1, max_size=30))
def test_first_come_first_served_keeps_the_order(prompts: list[tuple[int, bool]]) -> None:
    queue, come = Queue("fcfs"), []
    for tokens, computes in prompts:
        come.append(queue.come(tokens))
        queue.now += 0.001
        if computes:
            queue.compute()
    while queue.waiting:
        queue.compute()
    assert queue.first == come == list(queue.ended)


def test_the_expected_time_to_the_first_token() -> None:
    schedule = Schedule()
    assert schedule.ttft_s([100, 20], steps=0) == 0.0, "the speed is not known yet"
    schedule.record(0, [(100, 0)], 1.0)
    assert schedule.ttft_s([100, 20], steps=0) == pytest.approx(1.2, rel=0.01)
    schedule.record(4, [], 0.025)
    assert schedule.ttft_s([100, 20], steps=4) == pytest.approx(1.2 * 12 / 11, rel=0.01), (
        "a twelfth of each batch is for steps"
    )


def test_few_tokens_alone_say_nothing_of_the_speed() -> None:
    """They take as long as to read all weights."""
    schedule = Schedule()
    schedule.record(0, [(100, 0)], 1.0)
    schedule.record(0, [(2, 0)], 1.0)
    assert schedule.ttft_s([100], steps=0) == pytest.approx(1.0)


def test_a_prompt_gets_tokens_however_slow_the_machine_is() -> None:
    schedule = Schedule()
    for _ in range(30):
        schedule.record(4, [(4, 0)], 100.0)
    ((_, rows),) = schedule.choose([waiting(100)], 256, True)
    assert rows >= LEAST_ROWS
