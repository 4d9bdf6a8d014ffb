"""The prefix cache of pages: which leaves it has, which go first, and how far a prompt is that of another text."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

import pytest

from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment
from kquants.kv_layout import PAGE
from support.interrupted_lines import interrupt_after
from support.page_world import KINDS, World
from support.token_pages import used_pages

WITH_PAGES = [kind for kind, (windows, _) in KINDS.items() if None in windows]
"""Kinds whose nodes have pages."""


def texts(world: World) -> set[tuple[int, ...]]:
    """The first token and the length of each node's ids."""
    return {(node.ids[0], len(node.ids)) for node in world.nodes() if node.ids}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_leaf_with_the_longest_common_beginning_is_taken(order: Sequence[int]) -> None:
    world, trunk = World("plain"), [0] * PAGE
    ends = [[1] * 5 + [2] * 20, [1] * 10 + [3] * 20]
    for which in order:
        world.leave([*trunk, *ends[which]])
    for end, shared in zip(ends, (25, 30), strict=True):
        assert len(world.tree.begin([*trunk, *end, 9])) == PAGE + shared
    assert len(world.tree.begin([*trunk, *[1] * 8, 9])) == PAGE + 8


@pytest.mark.parametrize("length", [2 * PAGE, 2 * PAGE - 28])
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_without_marks_is_continued_at_its_end(kind: str, length: int) -> None:
    world, text = World(kind), list(range(length))
    world.leave(text, marks=False)
    sequence = world.tree.begin([*text, 7])
    assert sequence.tokens == text
    world.check(sequence)


def test_a_window_reaches_all_pages_that_it_holds() -> None:
    """A checkpoint behind 300 tokens has the window of those before it, too: it is found from each of its pages."""
    world, text = World("windowed"), list(range(300))
    world.leave(text, marks=False)
    for end in (4 * PAGE, 3 * PAGE, PAGE):
        sequence = world.tree.begin([*text[:end], 7])
        assert len(sequence) == end
        world.check(sequence)


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_that_is_made_at_a_full_page_later_is_found(kind: str) -> None:
    world, text = World(kind), list(range(3 * PAGE))
    sequence = world.tree.begin(text)
    world.extend(sequence, text[: 2 * PAGE])
    sequence.mark()
    world.extend(sequence, text[2 * PAGE :])
    again = world.tree.begin(text[: 2 * PAGE + 1])
    assert len(again) == 2 * PAGE
    world.check(again)


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_of_another_branch_do_not_come_with_a_longer_one(kind: str) -> None:
    world, trunk = World(kind), list(range(128))
    world.leave([*trunk, *[1] * 60])
    world.leave([*trunk, *[2] * 600])  # so long that pages of its trunk are freed where there is a window
    sequence = world.tree.begin([*trunk, *[2] * 610])
    assert len(sequence) == 728
    world.extend(sequence, [3])
    for point in sequence.checkpoints.points:
        back = sequence.fork()
        assert back.trim(point.length) == point.length
        world.check(back)


def test_a_page_with_an_embedding_is_not_found_before_it_is_full_nor_in_the_end() -> None:
    world, text = World("plain"), list(range(100))
    sequence = world.tree.begin(text)
    world.extend(sequence, text, embedded=(70,))
    assert len(world.tree.begin(text)) == PAGE
    world.tree.retire(sequence)
    del sequence
    assert len(world.tree.begin(text)) == PAGE


def test_embeddings_behind_a_length_that_a_sequence_goes_back_to_are_forgotten() -> None:
    world, text = World("plain"), list(range(200))
    sequence = world.tree.begin(text)
    world.extend(sequence, text[:60])
    world.extend(sequence, [1] * 3, embedded=(2,))
    for changed in (sequence, sequence.fork()):
        world.check(changed)
        assert changed.trim(60) == 60
        world.extend(changed, text[60:])
        world.check(changed)
    assert len(world.tree.begin(text)) == 199


def test_a_fork_is_cached_as_its_parent_is() -> None:
    world, text = World("plain"), list(range(200))
    sequence = world.tree.begin(text)
    world.extend(sequence, text[:100])
    child = sequence.fork()
    world.extend(child, text[100:])
    world.tree.retire(child)
    assert len(world.tree.begin(text)) == 199


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_that_were_accepted_are_kept_page_by_page(kind: str) -> None:
    world, text = World(kind), list(range(PAGE + 4))
    sequence = world.tree.begin(text)
    world.extend(sequence, text[: PAGE - 4])
    world.extend(sequence, text[PAGE - 4 :], drafts=7)
    world.tree.retire(sequence)
    del sequence
    assert len(world.tree.begin([*text, 7])) == PAGE + 4
    assert all(len(node.ids) <= PAGE for node in world.nodes())


def test_full_pages_are_shared_as_soon_as_they_are_full() -> None:
    world, text = World("plain"), list(range(3 * PAGE))
    both = [world.tree.begin(text), world.tree.begin(text)]
    for each in both:
        world.extend(each, text)
    assert both[0].tables[0].ids == both[1].tables[0].ids
    assert all(len(node.ids) in (0, PAGE) for node in world.nodes())


def test_the_beginning_of_a_text_that_is_there_leaves_nothing() -> None:
    world, text = World("plain"), list(range(100))
    world.leave(text)
    world.tree.retire(world.tree.begin(text[:81]))
    world.tree.begin([])
    assert texts(world) == {(0, PAGE), (PAGE, 36)}


def test_a_longer_text_takes_the_place_of_its_beginning_alone() -> None:
    world, trunk = World("plain"), [0] * PAGE
    for end in ([1] * 20, [2] * 20, [1] * PAGE):
        world.leave([*trunk, *end])
    world.tree.begin([])
    assert texts(world) == {(0, PAGE), (2, 20), (1, PAGE)}


@pytest.mark.parametrize("retired", [(1, 2, 3), (3, 1, 2)])
def test_leaves_go_in_the_order_in_which_their_sequences_ended(retired: Sequence[int]) -> None:
    """Whatever ended before the tree was used again."""
    world = World("plain")
    running = {token: world.tree.begin([token] * 9) for token in (1, 2, 3)}
    for token, sequence in running.items():
        world.extend(sequence, [token] * 9)
    for token in retired:
        world.tree.retire(running.pop(token))
    del sequence
    for gone in range(4):
        assert texts(world) == {(token, 9) for token in retired[gone:]} or not gone
        assert world.tree.evict() == (gone < 3)


def test_the_end_of_a_sequence_counts_as_its_last_use() -> None:
    world = World("plain")
    world.leave([1] * 80)
    running = world.tree.begin([1] * 81)
    world.leave([2] * 80)
    world.tree.begin([])
    world.tree.retire(running)
    del running
    world.tree.evict()
    assert texts(world) == {(1, PAGE), (1, 16), (2, PAGE)}


@pytest.mark.parametrize("kind", WITH_PAGES)
def test_leaves_whose_page_a_sequence_uses_go_last(kind: str) -> None:
    """Nothing would be free, as long as the sequence has the page."""
    world = World(kind)
    for token in (1, 2, 3):
        world.leave([token] * 20)
    users = [world.tree.begin([token] * 21) for token in (1, 2)]
    world.tree.begin([3] * 21)
    last = world.tree.begin([4] * 20)
    world.extend(last, [4] * 20)
    other = last.fork()  # so that the last page of each pool is shared
    assert [len(each) for each in (*users, other)] == [20] * 3
    for left in ({1, 2}, {2}, set[int]()):
        assert world.tree.evict()
        assert texts(world) == {(token, 20) for token in left}
    assert not world.tree.evict()


def test_state_pages_of_leaves_give_way_to_those_of_sequences() -> None:
    world = World("recurrent")
    for token in (1, 2):
        world.leave([token] * 20)
    running = list[PagedSequence]()
    for token in range(3, 11):
        running.append(world.tree.begin([token] * 9))
        world.extend(running[-1], [token] * 9)
    world.tree.begin([])
    assert len(used_pages(world.all_pools)[-1]) == len(running)


def test_a_chat_that_goes_on_keeps_the_checkpoints_of_one_leaf() -> None:
    """Those before belong to its sequence. Others would count as leaves, and evict another chat."""
    world = World("recurrent")
    world.leave([1] * 20)
    for turn in range(1, 7):
        world.leave([2] * (turn * PAGE))
    assert len(world.tree.begin([1] * 21)) == 20
    assert sum(node.kept is not None for node in world.nodes()) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_pages_that_are_reserved_and_not_computed_are_freed(kind: str) -> None:
    world = World(kind)
    sequence = world.tree.begin([1] * 1000)
    world.extend(sequence, [1] * 100)
    before = used_pages(world.all_pools)
    sequence.reserve(Segment(sequence, [1] * 100, marks=[40, 99]))
    assert used_pages(world.all_pools) != before
    sequence.free_reserved()
    assert used_pages(world.all_pools) == before


@pytest.mark.parametrize("kind", ["plain", "all"])
@pytest.mark.parametrize("step", ["extend", "settle", "evict"])
def test_an_interrupted_step_leaves_a_tree_that_goes_on(kind: str, step: str) -> None:
    text = list(range(150))
    for lines in count():
        world = World(kind)
        world.leave(text[:20])
        sequence = world.tree.begin(text)
        if step != "extend":
            world.extend(sequence, text[len(sequence) :])
            world.tree.retire(sequence)
        if step == "evict":
            world.tree.begin([])
        steps: dict[str, Callable[[], object]] = {
            "extend": partial(world.extend, sequence, text[len(sequence) :]),
            "settle": partial(world.tree.begin, []),
            "evict": world.tree.clear,
        }
        del sequence
        interrupted = interrupt_after(lines, steps[step])
        del steps
        for _ in range(2):
            again = world.tree.begin([*text, 7])
            world.check(again)
            assert again.tokens == text[: len(again)]
            world.extend(again, text[len(again) :])
            world.check(again)
            world.tree.retire(again)
        del again
        world.tree.clear()
        assert texts(world) == set()
        if not interrupted:
            break
    assert lines > 10
