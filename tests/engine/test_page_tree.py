"""The prefix cache of pages: what a sequence begins with are its own tokens, and no page is lost after any steps."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from edgellm.engine.paged_sequence import PagedSequence
from edgellm.errors import NoMemoryError
from kquants.kv_layout import PAGE
from support.page_world import KINDS, World
from support.token_pages import used_pages


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_begins_with_what_was_read_before(kind: str) -> None:
    world, text = World(kind), list(range(1000, 1300))
    first, cached = world.read(text)
    assert cached == 0
    running, cached = world.read([*text, 5, 6])
    assert cached == 300, "of a sequence that is in use"
    world.tree.retire(first)
    world.tree.retire(running)
    del first, running
    again, cached = world.read(text)
    assert cached == (299 if world.tree.goes_back or kind in ("windowed", "windows alone") else 151)
    world.tree.retire(again)
    _, cached = world.read([*text, 5, 6, 7])
    assert cached == 302
    _, cached = world.read([1, *text])
    assert cached == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_window_of_another_branch_is_not_taken(kind: str) -> None:
    """A checkpoint of one branch also reaches lengths of the trunk, but none of another branch behind it."""
    world, trunk = World(kind), list(range(128))
    world.tree.retire(world.read([*trunk, *[1] * 100])[0])
    other = world.tree.begin([*trunk, *[2] * 100])
    world.extend(other, [*trunk, *[2] * 100][len(other) :])  # without a checkpoint of its own
    sequence = world.tree.begin([*trunk, *[2] * 110])
    world.check(sequence)
    assert len(sequence) <= (228 if world.tree.goes_back else 128)
    assert all(point.length <= 128 for point in sequence.checkpoints.points)


def test_ids_are_compared_and_not_their_hashes() -> None:
    """-1 and -2 have the same hash in CPython."""
    world = World("plain")
    world.tree.retire(world.read([-1] * 200)[0])
    assert hash((-1,) * PAGE) == hash((-2,) * PAGE)
    assert len(world.tree.begin([-2] * 200)) == 0


def test_rows_that_were_embeddings_are_not_found() -> None:
    """Their keys and values are not those of their token ids, nor are those of the tokens behind them."""
    world, text = World("plain"), list(range(300))
    sequence = world.tree.begin(text)
    world.extend(sequence, text[:130])
    world.extend(sequence, text[130:], embedded=(3,))
    assert len(world.tree.begin(text)) == 128
    world.tree.retire(sequence)
    del sequence
    assert len(world.tree.begin(text)) == 128


def test_rejected_drafts_are_not_kept() -> None:
    world, text = World("plain"), list(range(60))
    sequence, _ = world.read(text)
    world.extend(sequence, [1, 2, 3, 4], drafts=3)
    sequence.trim(61)
    world.extend(sequence, [9, 9, 9, 9])
    assert len(world.tree.begin([*text, 1, 9, 9, 9, 8])) == 64
    assert len(world.tree.begin([*text, 1, 2, 3, 4, 8])) == 61


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_that_was_paused_continues_from_what_the_tree_still_has(kind: str) -> None:
    world, text = World(kind), list(range(300))
    sequence, _ = world.read(text)
    sequence.pause()
    assert sequence.tokens == []
    assert world.tree.stats(0, 0).used_pages == 0, "all of its memory can be evicted"
    sequence.resume([*text, 7])
    assert sequence.tokens == text
    world.check(sequence)
    world.extend(sequence, [7] * 100)
    world.check(sequence)
    sequence.pause()
    world.tree.evict()
    sequence.resume([*text, *[7] * 100, 8])
    world.check(sequence)
    assert len(sequence) == (384 if world.tree.goes_back else 0), "checkpoints belong to the leaf"
    sequence.pause()
    world.tree.clear()
    assert used_pages(world.all_pools) == [set() for _ in world.all_pools]
    sequence.resume(text)
    assert sequence.tokens == []


def test_a_sequence_whose_rows_were_embeddings_or_that_is_not_cached_does_not_resume() -> None:
    world, text = World("plain"), list(range(100))
    world.tree.retire(world.read(text)[0])
    embedded, unknown = world.tree.begin([]), PagedSequence(world.pools, world.tree.checkpoints, world.tree)
    world.extend(embedded, text, embedded=(70,))
    world.extend(unknown, text)
    for sequence in (embedded, unknown):
        sequence.pause()
        sequence.resume([*text, 1])
        assert sequence.tokens == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_sequence_takes_from_the_cache_has_no_embeddings_of_its_own(kind: str) -> None:
    """A row that was an embedding, and was taken back, says nothing of the token that is there later."""
    world = World(kind)
    sequence, _ = world.read([1, 2, 3])
    sequence.trim(0)
    world.extend(sequence, [1], embedded=(0,))
    sequence.trim(0)
    assert not sequence.embeddings
    world.read([7, 8, 9])
    other, _ = world.read([7, 8])
    sequence.adopt(other)
    assert sequence.tokens == [7, 8]
    world.check(sequence)
    embedded = world.tree.begin([])
    world.extend(embedded, [4], embedded=(0,))
    sequence.adopt(embedded)
    assert list(sequence.embeddings) == [0] and not embedded.embeddings
    world.check(sequence)


def test_two_that_compute_the_same_at_once_share_its_pages_afterwards() -> None:
    world, text = World("plain"), list(range(200))
    both = [world.tree.begin(text), world.tree.begin(text)]
    for each in both:
        world.extend(each, text)
    assert both[0].tables[0].ids[:3] == both[1].tables[0].ids[:3]
    assert [len(pages) for pages in used_pages(world.pools)] == [5, 5]


def test_the_least_recently_used_leaves_go_first_and_page_by_page() -> None:
    world, trunk = World("plain"), list(range(128))
    for end in (1, 2, 3):
        world.tree.retire(world.read([*trunk, *[end] * 128])[0])
    world.tree.begin([*trunk, *[1] * 128])
    assert world.tree.evict()
    assert [len(world.tree.begin([*trunk, *[end] * 128])) for end in (2, 3, 1)] == [192, 255, 255]
    running = world.tree.begin([*trunk, *[3] * 128])
    world.tree.clear()
    assert len(world.tree.begin([*trunk, *[3] * 128])) == 255, "what a sequence uses stays"
    assert len(running) == 255
    del running
    world.tree.clear()
    assert used_pages(world.pools) == [set(), set()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_stays_within_its_limit(kind: str) -> None:
    world = World(kind, limit=120)
    for i in range(30):
        world.tree.retire(world.read([i] * 200)[0])
    world.tree.begin([0])
    assert world.used_bytes <= 120
    assert len(world.tree.begin([29] * 200)) >= 100, "the last one is there"


@pytest.mark.parametrize("kind", KINDS)
def test_a_reservation_that_fails_leaves_no_page_behind(kind: str) -> None:
    world = World(kind, most=5)
    sequence = world.tree.begin([1] * 1000)
    world.extend(sequence, [1] * 100)
    before = [len(pages) for pages in used_pages(world.all_pools)]
    if kind != "states alone":
        with pytest.raises(NoMemoryError):
            world.extend(sequence, [1] * 400)
    assert [len(pages) for pages in used_pages(world.all_pools)] == before
    world.extend(sequence, [1] * 60)
    world.check(sequence)


@pytest.mark.parametrize("kind", KINDS)
def test_leaves_that_share_a_page_are_evicted(kind: str) -> None:
    """A sequence that went back into a full page of the tree, and ended there, leaves a leaf with the same page."""
    world = World(kind)
    sequence, _ = world.read([0] * 64)
    sequence.trim(32)
    sequence.mark()
    world.tree.retire(sequence)
    del sequence
    world.tree.clear()
    assert used_pages(world.all_pools) == [set() for _ in world.all_pools]


class TreeMachine(RuleBasedStateMachine):
    """Requests that begin, go on, go back, fork, end and vanish, in memory that is short for all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[PagedSequence] = []
        self.texts: list[list[int]] = [[]]

    @initialize(
        kind=st.sampled_from(sorted(KINDS)), most=st.sampled_from([12, 1000]), limit=st.sampled_from([25, 4000])
    )
    def open(self, kind: str, most: int, limit: int) -> None:
        self.world = World(kind, most, limit)

    def compute(
        self, sequence: PagedSequence, tokens: list[int], drafts: int = 0, embedded: tuple[int, ...] = ()
    ) -> bool:
        """Compute tokens as a batch does: leaves are evicted before requests are preempted."""
        while True:
            try:
                marks = () if drafts else tuple({len(tokens) // 2, len(tokens) - 1})
                self.world.extend(sequence, tokens, drafts, marks, embedded)
            except NoMemoryError:
                if not drafts and self.world.tree.evict():
                    continue
                if not drafts:
                    sequence.pause()
                return False
            self.world.check(sequence)
            self.texts.append(list(sequence.tokens))
            return True

    @rule(text=st.integers(0, 50), kept=st.floats(0, 1), new=st.integers(1, 300), token=st.integers(0, 2))
    def begin(self, text: int, kept: float, new: int, token: int) -> None:
        before = self.texts[text % len(self.texts)]
        ids = [*before[: round(kept * len(before))], *[token] * new][:600]
        sequence = self.world.tree.begin(ids)
        self.world.check(sequence)
        assert sequence.tokens == ids[: len(sequence)] and len(sequence) < len(ids)
        self.running.append(sequence)
        while len(sequence) < len(ids) and self.compute(sequence, ids[len(sequence) :][:130]):
            pass

    @rule(which=st.integers(0, 9), drafts=st.integers(0, 7), rejected=st.integers(0, 7))
    def decode(self, which: int, drafts: int, rejected: int) -> None:
        if self.running:
            sequence = self.running[which % len(self.running)]
            if self.compute(sequence, [3, *range(drafts)], drafts) and drafts:
                wanted = len(sequence) - min(rejected, drafts)
                assert sequence.trim(wanted) == wanted
                self.world.check(sequence)

    @rule(which=st.integers(0, 9), new=st.integers(1, 100), token=st.integers(0, 2), at=st.floats(0, 0.99))
    def embed(self, which: int, new: int, token: int, at: float) -> None:
        """Compute tokens, of which one has another embedding."""
        if self.running:
            self.compute(self.running[which % len(self.running)], [token] * new, embedded=(int(at * new),))

    @rule(which=st.integers(0, 9), left=st.floats(0, 1))
    def rewind(self, which: int, left: float) -> None:
        if self.running:
            sequence = self.running[which % len(self.running)]
            sequence.trim(int(left * len(sequence)))
            sequence.mark()
            self.world.check(sequence)

    @rule(which=st.integers(0, 9), end=st.sampled_from(["retire", "vanish", "pause", "resume", "fork", "hold"]))
    def end(self, which: int, end: str) -> None:
        if not self.running:
            return
        sequence = self.running[which % len(self.running)]
        match end:
            case "fork" if len(self.running) < 6:
                self.running.append(sequence.fork())
                self.world.check(self.running[-1])
            case "hold":
                sequence.hold(len(sequence))
            case "pause":
                sequence.pause()
                assert not sequence.tokens
            case "resume" if not sequence.tokens:
                sequence.resume(ids := self.texts[-1])
                self.world.check(sequence)
                assert sequence.tokens == ids[: len(sequence)]
                assert len(sequence) < len(ids) or not ids
            case "retire" | "vanish":
                self.running.remove(sequence)
                if end == "retire":
                    self.world.tree.retire(sequence)

    @rule()
    def evict(self) -> None:
        self.world.tree.evict()

    @invariant()
    def a_sequence_is_at_the_last_page_that_it_shares(self) -> None:
        for sequence in self.running:
            if (node := sequence.node) and not sequence.embeddings:
                assert node.end <= len(sequence) < node.end + PAGE + 8, "some may have been drafts"
                path = list(node.path())[::-1]
                assert [token for each in path for token in each.ids] == sequence.tokens[: node.end]
                for group, table in enumerate(sequence.tables):
                    if table.pool.window is None:
                        assert [each.pages[group] for each in path] == table.ids[: len(path)]

    @invariant()
    def no_page_is_lost(self) -> None:
        if hasattr(self, "world"):
            stats = self.world.tree.stats(0, 0)
            used = used_pages(self.world.all_pools)
            groups = len(self.world.pools)
            assert used == self.world.reachable(self.running, list(self.world.nodes()))
            assert stats.used_pages == sum(map(len, self.world.reachable(self.running, [])[:groups]))
            assert stats.cached_pages == sum(map(len, used[:groups])) - stats.used_pages

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.running.clear()
            self.world.tree.clear()
            assert used_pages(self.world.all_pools) == [set() for _ in self.world.all_pools]


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
