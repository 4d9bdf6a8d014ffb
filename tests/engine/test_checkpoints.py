"""Checkpoints of recurrent states: within the budget at any moment, where a sequence goes back to, none is lost."""

import gc
from collections.abc import Sequence as Ids
from functools import partial
from itertools import count, pairwise

import pytest

from edgellm.engine.budget import KVBudget
from edgellm.engine.checkpoints import CheckpointBudget
from edgellm.engine.kv_pages import PagePool
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment
from edgellm.engine.recurrent_states import (
    CHECKPOINT_BYTES,
    MAX_STATE_CHECKPOINTS,
    NO_STATE,
    StatePool,
    most_checkpoint_pages,
    most_state_pages,
)
from edgellm.errors import NoMemoryError
from support.interrupted_lines import interrupt_after

BUDGET = 10


class Store:
    """Pages without contents; `most` limits their number."""

    def __init__(self) -> None:
        self.pages, self.most = 0, 1000

    def ensure_pages(self, group: int, pages: int) -> None:
        if pages > self.most:
            raise NoMemoryError("no memory for another page")
        self.pages = max(self.pages, pages)

    def copy_page(self, group: int, source: int, target: int) -> None:
        raise AssertionError("a state page is never copied")


class Sequences:
    """Sequences of recurrent layers alone, whose checkpoints share a budget; a state is the tokens before it."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.store, self._next = Store(), count()
        self._states: dict[int, list[int]] = {}
        self.pool = PagePool([self.store])
        self.budget, self._pools = CheckpointBudget(StatePool(self.pool, budget)), list[PagePool]()

    def new(self) -> PagedSequence:
        return PagedSequence(self._pools, self.budget)

    def extend(self, sequence: PagedSequence, n: int, marks: Ids[int] = (), retry: int | None = None) -> None:
        self.compute(Segment(sequence, [next(self._next) for _ in range(n)], marks=marks, retry_mark=retry))

    def compute(self, segment: Segment[PagedSequence]) -> None:
        """Write states to the reserved pages as an engine does."""
        sequence, n = segment.sequence, len(segment.tokens)
        self.check(sequence)
        sequence.reserve(segment)
        tokens = [*sequence.tokens, *segment.tokens]
        for end, page in enumerate(sequence.states.kept(len(sequence), n), len(sequence) + 1):
            if page != NO_STATE:
                self._states[page] = tokens[:end]
        self.check(sequence)
        sequence.append(segment)

    def check(self, sequence: PagedSequence) -> None:
        """The state of the last token and those of all checkpoints are right."""
        if sequence.tokens:
            assert self._states[sequence.states.before(len(sequence))] == sequence.tokens
        for point in sequence.checkpoints.points:
            assert point.state
            assert self._states[point.state.id] == sequence.tokens[: point.length]

    def used(self) -> int:
        """Pages with references."""
        gc.collect()
        self.pool.release(self.pool.acquire())  # what was dropped is released by the next `acquire`
        return sum(n > 0 for n in self.pool._references)


def lengths(sequence: PagedSequence) -> list[int]:
    return [point.length for point in sequence.checkpoints.points]


def test_a_batch_with_many_marks_never_takes_more_pages_than_the_budget() -> None:
    world = Sequences()
    sequence = world.new()
    for _ in range(5):
        world.extend(sequence, 300, range(0, 300, 3), 298)
    assert world.store.pages == most_state_pages(BUDGET)
    held = lengths(sequence)
    assert held[-2:] == [1498, 1499]
    gaps = [after - before for before, after in pairwise(held)]
    assert gaps[0] > gaps[-2], "those that stay are close together near the end"


def test_a_sequence_goes_back_to_marks_in_the_middle_of_a_batch_and_no_further() -> None:
    world = Sequences()
    sequence = world.new()
    world.extend(sequence, 100, [9, 49], 98)
    assert [sequence.reach(n) for n in (9, 10, 48, 50, 98, 99, 100)] == [0, 10, 10, 50, 50, 99, 100]
    world.extend(sequence, 1)
    assert (sequence.trim(100), lengths(sequence)) == (99, [10, 50, 99])
    assert (sequence.trim(70), lengths(sequence), len(sequence)) == (50, [10, 50], 50)
    assert (sequence.trim(0), lengths(sequence)) == (0, [])
    assert (sequence.fork().trim(5), sequence.trim(0)) == (0, 0)
    world.extend(sequence, 5)
    assert sequence.trim(5) == 5


def test_a_retry_takes_the_place_of_the_one_before() -> None:
    world = Sequences()
    sequence = world.new()
    world.extend(sequence, 10, [4], 8)
    world.extend(sequence, 10, [4], 8)
    assert lengths(sequence) == [5, 15, 19]
    world.extend(sequence, 1, [0])
    assert lengths(sequence) == [5, 15, 19, 21]


def test_the_length_that_is_held_moves_on_and_ends_with_the_next_prompt() -> None:
    world = Sequences()
    sequence = world.new()
    world.extend(sequence, 10, [4], 8)
    for _ in range(3):
        sequence.hold(len(sequence))
        world.extend(sequence, 1)
    assert lengths(sequence) == [5, 9, 12]
    world.compute(Segment(sequence, [0] * 8, drafts=7))
    sequence.hold(17)
    sequence.hold(11)
    assert lengths(sequence) == [5, 9, 17], "of a length whose state is gone nothing changes"
    world.extend(sequence, 3)
    child = sequence.fork()
    assert (child.trim(20), lengths(child)) == (17, [5, 9, 17])
    world.extend(sequence, 10, [], 8)
    assert lengths(sequence) == [5, 33]


def test_what_is_held_is_within_the_budget() -> None:
    world = Sequences()
    sequence = world.new()
    world.extend(sequence, 300, range(0, 300, 3), 298)
    for _ in range(20):
        world.extend(sequence, 2)
        sequence.hold(len(sequence))
        assert world.used() <= most_state_pages(BUDGET)
    world.compute(Segment(sequence, [0] * 8, drafts=7))
    sequence.hold(len(sequence) - 4)
    for _ in range(2):
        world.extend(sequence, 1)
        assert world.used() <= most_state_pages(BUDGET)
    assert world.store.pages <= most_state_pages(BUDGET, drafts=7)
    assert len(lengths(sequence)) >= BUDGET - 1


def test_states_of_drafts_stay_until_the_next_batch() -> None:
    world = Sequences()
    sequence = world.new()
    for _ in range(3):
        world.compute(Segment(sequence, [0] * 4, drafts=3))
    assert [sequence.reach(n) for n in range(8, 13)] == [0, 9, 10, 11, 12]
    assert world.store.pages == 5, "of the states of the batch before only the last is needed"
    assert sequence.trim(10) == 10
    assert world.used() == 1
    world.extend(sequence, 1)
    assert sequence.reach(10) == 0


def test_drafts_of_a_sequence_cost_no_checkpoint_of_another() -> None:
    world = Sequences()
    first, second = world.new(), world.new()
    world.extend(first, 100, range(9, 99, 10))
    held = lengths(first)
    world.compute(Segment(second, [0] * 8, drafts=7))
    world.extend(first, 1)
    assert (len(held), lengths(first)) == (BUDGET - 1, held)
    assert second.trim(6) == 6
    second.mark()
    world.extend(first, 1)
    pages = BUDGET - 1 + 2  # checkpoints, and the present states of both
    assert world.budget.states
    assert world.budget.states.excess(0) == pages - most_state_pages(BUDGET), "an accepted draft counts"


def test_pages_that_forks_share_count_once() -> None:
    world = Sequences()
    trunk = world.new()
    world.extend(trunk, 100, range(0, 60, 10))
    forks = [trunk.fork() for _ in range(4)]
    assert world.used() == 7
    for each in forks:
        world.extend(each, 10)
        assert lengths(each) == lengths(trunk) == [1, 11, 21, 31, 41, 51]
    del each, forks
    assert world.used() == 7
    del trunk
    assert world.used() == 0


def test_a_fork_that_waits_gives_up_what_it_shares() -> None:
    world = Sequences()
    trunk = world.new()
    world.extend(trunk, 100, range(9, 99, 10))
    child = trunk.fork()
    for _ in range(3):
        world.extend(trunk, 100, range(9, 99, 10))
    assert world.store.pages == most_state_pages(BUDGET)
    assert (lengths(child)[-1], child.reach(100)) == (90, 100)


def test_sequences_share_the_budget_and_each_keeps_its_last_checkpoint() -> None:
    world = Sequences()
    first, second = world.new(), world.new()
    world.extend(first, 100, range(9, 99, 10), 98)
    assert len(lengths(first)) == BUDGET
    world.extend(second, 100, range(9, 99, 10), 98)
    assert world.used() <= most_state_pages(BUDGET)
    assert 99 not in lengths(first), "a retry of the sequence that waits goes first"
    assert (90 in lengths(first), lengths(second)[-2:]) == (True, [90, 99])
    assert abs(len(lengths(first)) - len(lengths(second))) <= 2
    many = [world.new() for _ in range(20)]
    for each in many:
        world.extend(each, 10, [4])
    assert [lengths(each) for each in many] == [[5]] * 20
    assert (lengths(first), lengths(second)) == ([90], [90])


def test_without_memory_there_are_fewer_checkpoints() -> None:
    world = Sequences()
    world.store.most = 4
    sequence = world.new()
    world.extend(sequence, 100, range(9, 99, 10), 98)
    assert lengths(sequence) == [80, 90, 99], "the most important of them"
    with pytest.raises(NoMemoryError):
        world.compute(Segment(sequence, [7, 8], drafts=1))
    assert (len(sequence), sequence.reach(100), lengths(sequence)) == (100, 100, [80, 90, 99]), "drafts can wait"
    world.extend(sequence, 1)
    assert lengths(sequence) == [90, 99], "a token cannot"
    world.store.most = 9
    world.extend(sequence, 1)
    assert world.used() == 3, "what a failed batch reserved is given back"


def test_a_token_takes_the_memory_of_checkpoints_where_there_is_no_other() -> None:
    world = Sequences()
    waiting, sequence = world.new(), world.new()
    world.extend(waiting, 20, [9, 14], 19)
    world.extend(sequence, 20, [9], 18)
    world.store.most = 0
    world.extend(waiting, 1)
    world.extend(sequence, 1)
    while lengths(sequence):
        world.extend(sequence, 1)
        world.pool.acquire()  # memory becomes shorter
    assert lengths(waiting) == [15], "another sequence keeps its last one, until it is evicted"
    with pytest.raises(NoMemoryError):
        world.extend(sequence, 1)
    world.check(sequence)


@pytest.mark.parametrize(
    "name", ["trim to 50", "trim to 70", "trim to 99", "trim to 0", "reserve", "mark", "hold", "fork"]
)
def test_an_interrupted_step_leaves_a_sequence_that_goes_on(name: str) -> None:
    for lines in count():
        world = Sequences()
        sequence, other = world.new(), world.new()
        world.extend(sequence, 100, range(9, 99, 10), 98)
        world.extend(other, 20, [4, 9], 18)
        child = sequence.fork()
        new = Segment(sequence, [0] * 30, marks=[4, 9, 19], retry_mark=28)
        steps = {"reserve": partial(sequence.reserve, new), "mark": sequence.mark, "fork": sequence.fork}
        steps["hold"] = partial(sequence.hold, len(sequence))
        interrupted = interrupt_after(lines, steps.get(name) or partial(sequence.trim, int(name.split()[-1])))
        for each in (sequence, other, child):
            world.check(each)
            world.extend(each, 30, [4, 9, 19], 28)
            world.check(each)
            assert lengths(each)[-1] == len(each) - 1
        if not interrupted:
            break
    assert lines > 5
    del each, sequence, other, child, new, steps
    assert world.used() == 0


def test_an_interrupted_adoption_takes_all_of_the_other_sequence_or_nothing() -> None:
    for lines in count():
        lost, world = Sequences(), Sequences()
        sequence, fresh = lost.new(), world.new()
        lost.extend(sequence, 40, [9], 38)
        world.extend(fresh, 40, [9], 38)
        interrupted = interrupt_after(lines, partial(sequence.adopt, fresh))
        pool = world.budget.states if sequence.belongs_to(world._pools) else lost.budget.states
        held = [*sequence.states.pages.values(), *(point.state for point in sequence.checkpoints.points)]
        assert sequence.states.pool is pool and pool
        assert all(page in pool._counted for page in held if page)
        if not interrupted:
            break
    assert (len(held), len(fresh), fresh.states.pages, lines > 3) == (3, 0, {}, True)


@pytest.mark.parametrize(
    ("state_bytes", "limit", "pages"),
    [
        (50 << 20, 16 << 30, 20),
        (50 << 20, 400 << 20, 2),
        (1 << 30, 1 << 30, 2),
        (1 << 20, 400 << 20, 100),
        (1 << 10, 16 << 30, MAX_STATE_CHECKPOINTS),
    ],
)
def test_the_budget_is_a_share_of_the_memory_for_the_kv_cache(state_bytes: int, limit: int, pages: int) -> None:
    assert most_checkpoint_pages(state_bytes, KVBudget(limit)) == pages
    assert pages == 2 or pages * state_bytes <= CHECKPOINT_BYTES
    assert most_state_pages(pages) == pages + 2, "the present state and the next one"
