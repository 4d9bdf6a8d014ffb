"""Which tokens a batch computes: steps of replies first, then prompts in their order, within a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.engine.protocol import Segment
from edgellm.generate.cancel_flag import CancelFlag
from edgellm.generate.computation import Computation
from edgellm.generate.schedule import LEAST_ROWS, PROMPT_S, Schedule
from support.stateless import Sequence


def waiting(tokens: int, since: float = 0.0, is_step: bool = False) -> Computation:
    segment = Segment(Sequence(), [1] * tokens, [tokens - 1])
    made = Computation(segment, CancelFlag(None), is_step)  # type: ignore[arg-type]
    made.since = since
    return made


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


def rows_of_a_prompt(schedule: Schedule) -> int:
    ((_, rows),) = schedule.choose([waiting(10_000)], 256, True)
    return rows


@pytest.mark.parametrize("row_s", [0.0001, 0.002, 0.01, 1.0])
def test_batches_come_to_take_the_time_that_they_may(row_s: float) -> None:
    """A machine that takes `row_s` a row, and as long as for 5 rows for any batch."""
    schedule = Schedule()
    for _ in range(30):
        rows = rows_of_a_prompt(schedule)
        schedule.record(rows, (rows + 5) * row_s)
    seconds = (rows + 5) * row_s
    assert rows == LEAST_ROWS or rows == 256 or 0.7 * PROMPT_S < seconds < 1.2 * PROMPT_S


def test_a_machine_that_becomes_slower_has_smaller_batches_at_once() -> None:
    schedule = Schedule()
    for _ in range(9):
        schedule.record(rows := rows_of_a_prompt(schedule), rows * 0.001)
    assert rows_of_a_prompt(schedule) == 100
    schedule.record(100, 1.0)
    assert rows_of_a_prompt(schedule) == 10


def order(policy: str, *prompts: Computation) -> list[int]:
    """The prompts in the order in which a batch of one row each takes them."""
    schedule, left = Schedule(policy), list(prompts)
    for _ in range(20):
        schedule.record(10, 0.1)  # a hundred rows a second
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
