"""KV pages of sequences with windows: what a later token sees is always there, and everything else is given back."""

from collections.abc import Callable
from functools import partial
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.engine.checkpoints import CheckpointBudget
from edgellm.engine.kv_pages import KEPT_BEFORE_WINDOW, MAX_CHECKPOINTS, PagePool, most_pages
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment
from kquants.kv_layout import PAGE
from support.interrupted_lines import interrupt_after
from support.token_pages import TokenPages, used_pages

WINDOWS = (None, 3, 100, 300)


class Sequences:
    """Sequences that write their tokens to pages as an engine does, up to 256 at a time."""

    def __init__(self, windows: tuple[int | None, ...] = WINDOWS) -> None:
        self.store, self._next = TokenPages(), count()
        self.pools = [PagePool([self.store], group, window) for group, window in enumerate(windows)]
        self.check = self.store.check

    def new(self) -> PagedSequence:
        return PagedSequence(self.pools, CheckpointBudget(None))

    def extend(self, sequence: PagedSequence, n: int) -> None:
        for start in range(0, n, 256):
            tokens = [next(self._next) for _ in range(min(256, n - start))]
            self.store.write(Segment(sequence, tokens))

    def used(self, group: int) -> int:
        """Pages with references."""
        return len(used_pages(self.pools)[group])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.integers(1, 400)),
        st.tuples(st.just("trim"), st.floats(0, 1)),
        st.tuples(st.just("back"), st.integers(1, 40)),
        st.tuples(st.sampled_from(["mark", "fork", "drop", "other"]), st.just(0)),
    ),
    max_size=14,
)


@given(STEPS)
@settings(max_examples=80, deadline=None)
def test_what_the_next_token_sees_is_there_after_any_steps(steps: list[tuple[str, float]]) -> None:
    world = Sequences()
    held = [each := world.new()]
    sequence = each
    for step, amount in steps:
        sequence = held[-1]
        tokens, length = list(sequence.tokens), len(sequence)
        match step:
            case "extend":
                world.extend(sequence, int(amount))
            case "trim" | "back":
                wanted = int(amount * length) if step == "trim" else max(0, length - int(amount))
                reach = sequence.reach(wanted)
                assert sequence.trim(wanted) == reach == len(sequence) <= wanted
                assert sequence.tokens == tokens[:reach]
            case "mark":
                sequence.mark()
            case "fork":
                held.append(sequence.fork())
            case "drop" if len(held) > 1:
                held.pop()
            case "other":
                held.insert(0, held.pop())
        for each in held:
            world.check(each)
    held.clear()
    del sequence, each
    assert [world.used(group) for group in range(len(WINDOWS))] == [0] * len(WINDOWS), "no page is lost"


def test_rejected_drafts_need_no_checkpoint() -> None:
    world = Sequences()
    sequence = world.new()
    world.extend(sequence, 5000)
    assert sequence.trim(5000 - KEPT_BEFORE_WINDOW) == 5000 - KEPT_BEFORE_WINDOW
    world.check(sequence)


def test_a_sequence_goes_back_to_its_checkpoints_and_no_further() -> None:
    world = Sequences((None, 100))
    sequence = world.new()
    for _ in range(2):
        world.extend(sequence, 1000)
        sequence.mark()
    world.extend(sequence, 1000)
    other = sequence.fork()
    assert (other.trim(1500), len(other)) == (1000, 1000), "the nearest checkpoint before"
    assert other.trim(700) == 0, "pages before its window are gone"
    assert sequence.reach(2000 - KEPT_BEFORE_WINDOW) == 2000 - KEPT_BEFORE_WINDOW, "what a checkpoint keeps besides"
    assert sequence.trim(2000) == 2000
    world.check(sequence)
    world.extend(sequence, 500)
    assert sequence.trim(2000) == 2000, "a checkpoint serves again"
    world.extend(sequence, 500)
    assert sequence.trim(1990) == 1990, "and before its end, too"
    world.check(sequence)


def test_checkpoints_that_stay_are_close_together_near_the_end() -> None:
    world = Sequences((None, 16))
    sequence = world.new()
    for _ in range(20):
        world.extend(sequence, 100)
        sequence.mark()
    lengths = [point.length for point in sequence.checkpoints.points]
    assert len(lengths) == MAX_CHECKPOINTS
    assert lengths[-1] == 2000
    gaps = [after - before for before, after in pairwise(lengths)]
    assert gaps == sorted(gaps, reverse=True)


@pytest.mark.parametrize("window", [1, 16, 64, 100, 1024])
def test_pages_are_bounded_by_the_window(window: int) -> None:
    world = Sequences((None, window))
    sequence = world.new()
    for _ in range(40):
        world.extend(sequence, 800)
        sequence.mark()
        assert world.used(1) <= most_pages(window, len(sequence), 256)
    assert (world.used(0), most_pages(None, 32000, 256)) == (500, 500)
    assert most_pages(window, 32000, 256) < 5 * (window + 400) // PAGE + 10


def test_without_windows_nothing_is_kept_for_going_back() -> None:
    world = Sequences((None,))
    sequence = world.new()
    world.extend(sequence, 300)
    sequence.mark()
    assert (sequence.checkpoints.points, sequence.trim(77)) == ([], 77)


@pytest.mark.parametrize("name", ["trim to 1000", "trim to 1450", "trim to 1990", "reserve", "mark", "fork"])
def test_an_interrupted_step_leaves_a_sequence_that_goes_on(name: str) -> None:
    for lines in count():
        world = Sequences()
        sequence = world.new()
        world.extend(sequence, 1000)
        sequence.mark()
        world.extend(sequence, 1000)
        other = sequence.fork()
        steps: dict[str, Callable[[], object]] = {
            "reserve": partial(sequence.reserve, Segment(sequence, [0] * 300)),
            "mark": sequence.mark,
            "fork": sequence.fork,
        }
        interrupted = interrupt_after(lines, steps.get(name) or partial(sequence.trim, int(name.split()[-1])))
        world.check(sequence)
        world.extend(sequence, 1500)
        for each in (sequence, other):
            world.check(each)
        if not interrupted:
            break
    assert lines > 10
