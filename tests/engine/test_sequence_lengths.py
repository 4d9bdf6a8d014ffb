"""Lengths to which sequences with pages of any kind go back, and what is kept for them."""

import pytest

from kquants.kv_layout import PAGE
from support.page_world import KINDS, World

WITH_STATES = [kind for kind, (_, is_recurrent) in KINDS.items() if is_recurrent]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_has_no_more_tokens_after_it_was_asked_to_keep_more(kind: str) -> None:
    world = World(kind)
    sequence = world.tree.begin([])
    world.extend(sequence, [1] * 100)
    assert sequence.reach(1000) == sequence.trim(1000) == len(sequence) == 100
    assert sequence.reach(-1) == 0
    world.check(sequence)


@pytest.mark.parametrize("kind", KINDS)
def test_a_length_that_is_marked_again_is_one_checkpoint(kind: str) -> None:
    world = World(kind)
    sequence = world.tree.begin([])
    world.extend(sequence, [1] * 50, marks=(49,))
    for _ in range(3):
        sequence.mark()
        sequence.hold(50)
    assert sequence.marked == ([] if sequence.goes_back else [50])
    assert len(sequence.checkpoints.points) == len(sequence.marked)


def test_marks_whose_states_found_no_memory_are_no_checkpoints() -> None:
    """With a window there are pages for them, from which alone no sequence can go on."""
    world = World("all", most=3)
    sequence = world.tree.begin([])
    marks = (9, 19, 29, 39, 49, 99)
    world.extend(sequence, [1] * 100, marks=marks)
    assert [point.length for point in sequence.checkpoints.points if point.length < 100]
    for point in sequence.checkpoints.points:
        back = sequence.fork()
        assert back.trim(point.length) == point.length
        world.check(back)
    assert sequence.trim(99) in {point.length for point in sequence.checkpoints.points} | {0}


@pytest.mark.parametrize("kind", WITH_STATES)
def test_a_state_of_a_draft_that_is_held_counts_in_the_budget(kind: str) -> None:
    world = World(kind)
    states = world.tree.checkpoints.states
    assert states
    sequence = world.tree.begin([])
    world.extend(sequence, [1] * (PAGE + 4), drafts=3)
    before = states.excess(0)
    sequence.hold(PAGE + 2)
    sequence.hold(PAGE + 1)
    assert states.excess(0) == before + 2, "the page of the first one stays until the next batch"
    assert sequence.trim(PAGE + 1) == PAGE + 1
    assert states.excess(0) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_that_was_not_paused_stays_as_it_is(kind: str) -> None:
    world = World(kind)
    sequence = world.tree.begin([])
    world.extend(sequence, [1] * 100)
    sequence.resume([1] * 50)
    assert sequence.tokens == [1] * 100
    world.check(sequence)


def test_a_sequence_that_takes_the_pages_of_another_tree_is_counted_there() -> None:
    """So it goes on when its engine was replaced by another one."""
    old, new = World("plain"), World("plain")
    sequence = old.tree.begin([])
    old.extend(sequence, [1] * 100)
    other = new.tree.begin([])
    new.extend(other, [2] * 70)
    sequence.adopt(other)
    assert other.tokens == [] and other.node is None
    del other
    assert new.tree.stats(0, 0).used_pages == 4
    new.check(sequence)
