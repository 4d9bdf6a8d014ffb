"""What a head computes after any steps of its target: the pairs of the text, as if all were computed at once."""

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgellm.engine import feature_rows
from edgellm.engine.head_sequence import HeadSequence
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment
from support.heads import head_of, opened_with_head, with_random_head
from support.model_file import FamilyFile

Row = NDArray[np.float32]


@pytest.fixture(scope="module")
def engine(family_file: FamilyFile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeEngine]:
    path: Path = tmp_path_factory.mktemp("head") / "head.gguf"
    with opened_with_head(with_random_head(family_file("glm4_5_air"), path), threads=1) as engine:
        yield engine


class Reply:
    """A reply whose steps accept or reject drafts. The target has computed all of `text` but the last token.

    `used` has the features of each pair that the head holds, by position.
    """

    def __init__(self, engine: NativeEngine) -> None:
        self.engine, self.head = engine, head_of(engine)
        self.sequence, self.text, self.used = engine.new_sequence(), [3], dict[int, Row]()
        self.retaken = -1  # the position whose pair may lack its row, after a trim

    @property
    def state(self) -> HeadSequence:
        assert isinstance(self.sequence.follower, HeadSequence)
        return self.sequence.follower

    def step(self, accepted: list[int], rejected: int, then: int) -> None:
        """Compute the last token, and drafts of which some are accepted; `then` is the token behind them."""
        self.trim_rejected()
        tokens = [self.text[-1], *accepted, *range(10, 10 + rejected)]
        self.engine.compute([Segment(self.sequence, tokens, drafts=len(tokens) - 1)])
        self.text += [*accepted, then]

    def trim_rejected(self) -> None:
        self.sequence.trim(len(self.text) - 1)

    def go_back(self, tokens: int, then: int) -> None:
        """Another token in place of the last `tokens` and the one behind them."""
        n = max(0, len(self.text) - 1 - tokens)
        self.sequence.trim(n)
        self.text, self.retaken = [*self.text[:n], then], n - 1
        self.used = {p: row for p, row in self.used.items() if p < n}

    def fork(self) -> None:
        self.trim_rejected()
        self.sequence, self.used = self.sequence.fork(), {}

    def draft(self, most: int, chain: int) -> None:
        """Compute what waits, in parts of `most` pairs, and compare; then `chain` drafts, which are dropped later."""
        outputs: Outputs | None = None
        while outputs is None or not len(outputs.logits if outputs.logits is not None else ()):
            segment = self.state.segment(self.text, most)
            if segment is None:
                return
            outputs = self.compute(segment)
        self.compare(outputs)
        for token in range(20, 20 + chain):
            features = self.head.next_features(outputs)
            outputs = self.head.compute([Segment(self.state.own, [token], [0], features=features)])

    def compute(self, segment: Segment) -> Outputs:  # type: ignore[type-arg]
        first = self.state._start + len(self.state.own)
        assert segment.features is not None and self.state._pairs == len(self.state.own)
        assert list(segment.tokens) == self.text[first + 1 : first + 1 + len(segment.tokens)]
        self.used |= {first + i: row.copy() for i, row in enumerate(segment.features)}
        outputs = self.head.compute([segment])
        self.state.confirm(len(segment.tokens))
        return outputs

    def compare(self, outputs: Outputs) -> None:
        start, length = self.state._start, len(self.text) - 1
        fresh = self.engine.compute([Segment(self.engine.new_sequence(), self.text[:length])]).all_hidden
        assert fresh is not None
        for p in range(start, length):
            lacks = not self.used[p].any()
            assert np.array_equal(self.used[p], fresh[p]) or (lacks and p <= self.retaken), f"features of {p}"
        features = np.stack([self.used[p] for p in range(start, length)])
        pairs = Segment(self.head.follow().own, self.text[start + 1 :], [length - start - 1], features=features)
        expected = self.head.compute([pairs])
        assert expected.logits is not None and outputs.logits is not None
        assert np.array_equal(outputs.logits.view(np.uint32), expected.logits.view(np.uint32))


TOKENS = st.integers(30, 200)
STEPS = st.one_of(
    st.tuples(st.just("step"), st.lists(TOKENS, max_size=4), st.integers(0, 3), TOKENS),
    st.tuples(st.just("go_back"), st.integers(0, 8), TOKENS),
    st.tuples(st.just("draft"), st.sampled_from([1, 3, 100]), st.integers(0, 3)),
    st.tuples(st.just("fork")),
    st.tuples(st.just("pause")),
)


def follow(reply: Reply, steps: list[tuple[object, ...]]) -> None:
    for name, *given_ in steps:
        if name == "pause":
            reply.state.pause()
        else:
            getattr(reply, str(name))(*given_)
    reply.step([], 0, 77)
    reply.draft(100, 0)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, max_size=14))
def test_after_any_steps_the_pairs_are_those_of_the_text(engine: NativeEngine, steps: list[tuple[object, ...]]) -> None:
    follow(Reply(engine), steps)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=14))
def test_of_a_long_text_the_head_sees_the_end(engine: NativeEngine, steps: list[tuple[object, ...]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_rows, "_MOST_ROWS", 4)
        follow(Reply(engine), steps)


def test_drafts_cost_the_pairs_of_accepted_tokens_alone(engine: NativeEngine) -> None:
    reply = Reply(engine)
    reply.step([5, 6, 7], 0, 8)
    assert reply.state.lag(reply.text) == 4
    reply.draft(100, 3)
    reply.step([9], 5, 11)
    assert reply.state.lag(reply.text) == 2, "not those of five rejected drafts"
    reply.draft(100, 0)
    reply.draft(100, 0)
    assert reply.state.lag(reply.text) == 1, "a second round for the same text computes its last pair again"


def test_pairs_of_a_text_that_was_left_are_computed_again(engine: NativeEngine) -> None:
    """The new text has another second token, and then those of the old one."""
    reply = Reply(engine)
    reply.step([5, 6, 7], 0, 8)
    reply.draft(100, 0)
    reply.go_back(3, 9)
    reply.step([6, 7], 0, 8)
    assert reply.state.lag(reply.text) == 4
    reply.draft(100, 0)


def test_without_the_rows_of_the_text_there_are_no_drafts(engine: NativeEngine) -> None:
    reply = Reply(engine)
    assert reply.state.segment(reply.text, 100) is None, "the target has computed nothing"
    reply.step([5, 6, 7], 0, 8)
    reply.draft(100, 0)
    assert reply.state.segment(reply.text[:2], 100) is None, "the rows are those behind it"
    reply.sequence.pause()
    assert reply.state.segment(reply.text, 100) is None


def test_replies_at_once_share_the_memory_of_rows_that_wait(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    row_bytes = 4 * head_of(engine).head.model.width
    gc.collect()  # sequences of other tests
    monkeypatch.setattr(feature_rows, "_MOST_BYTES", 40 * row_bytes)

    def waiting(replies: list[Reply]) -> list[int]:
        rows = [list(reply.state._rows) for reply in replies]
        assert all(row.base is None for each in rows for row in each), "no view keeps the rows of a whole batch"
        return [sum(row.nbytes for row in each) // row_bytes for each in rows]

    replies = [Reply(engine)]
    replies[0].step([7] * 59, 0, 8)
    assert waiting(replies) == [40]
    replies += [Reply(engine) for _ in range(3)]
    for reply in replies:
        reply.step([7] * 29, 0, 8)
    assert waiting(replies) == [10] * 4
    del replies[1:], reply
    replies[0].step([7] * 59, 0, 8)
    assert waiting(replies) == [40], "the others have ended"
    replies[0].draft(100, 0)


def test_once_the_head_drafts_nothing_batches_keep_nothing_for_it(family_file: FamilyFile, tmp_path: Path) -> None:
    path = with_random_head(family_file("glm4_5_air"), tmp_path / "head.gguf")
    with opened_with_head(path, threads=1) as engine:
        reply, later = Reply(engine), Reply(engine)
        reply.step([5, 6, 7], 0, 8)
        assert reply.state._rows
        engine.stop_following()
        assert not reply.state._rows
        for each in (reply, later):
            each.step([5, 6, 7], 0, 8)
            assert not each.state._rows and each.state.segment(each.text, 100) is None
        outputs = engine.compute([Segment(engine.new_sequence(), [5, 6], [1])])
        assert outputs.logits is not None and outputs.all_hidden is None and not outputs.taps
