"""The batches of a prompt: all tokens once, with marks at the ends of messages and a mark for a retry."""

from hypothesis import given
from hypothesis import strategies as st

from edgellm.generate.prompt_segments import MARK_EVERY, prompt_segments
from support.stateless import Sequence


class Marked(Sequence):
    needs_marks = True


def read(sequence: Sequence, ids: list[int], rows: int, ends: set[int]) -> tuple[list[int], list[int]]:
    """The lengths that are marked, and those marked for a retry, of a prompt that is read."""
    marks, retries = list[int](), list[int]()
    for segment in prompt_segments(sequence, ids, rows, ends):
        assert 0 < len(segment.tokens) <= rows
        assert list(segment.wanted) == [len(segment.tokens) - 1]
        marks += [len(sequence) + i + 1 for i in segment.marks]
        retries += [] if segment.retry_mark is None else [len(sequence) + segment.retry_mark + 1]
        sequence.tokens += segment.tokens
    assert sequence.tokens == ids
    return marks, retries


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 59), st.integers(1, 70))
def test_each_end_of_a_message_is_marked_once_and_the_token_before_the_last(
    ids: list[int], cached: int, rows: int
) -> None:
    sequence = Sequence()
    sequence.tokens = ids[: min(cached, len(ids) - 1)]
    start = len(sequence)
    marks, retries = read(sequence, ids, rows, {0})
    assert marks == [i + 1 for i in range(start, len(ids)) if ids[i] == 0]
    assert retries == ([len(ids) - 1] if len(ids) - 1 > start else [])


def test_a_long_message_has_marks_where_a_sequence_goes_back_to_marks_alone() -> None:
    ids = [0] + [1] * (2 * MARK_EVERY + 9) + [0] + [1] * MARK_EVERY
    end = 2 * MARK_EVERY + 11
    assert read(Marked(), ids, 300, {0})[0] == [1, 1 + MARK_EVERY, 1 + 2 * MARK_EVERY, end, end + MARK_EVERY]
    assert read(Sequence(), ids, 300, {0})[0] == [1, end]
