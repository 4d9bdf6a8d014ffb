"""The segment of a prompt: all tokens once, with marks at the ends of messages and a mark for a retry."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edgellm.engine.protocol import Segment
from edgellm.generate.prompt_segment import MARK_EVERY, prompt_segment
from support.stateless import Sequence


class Marked(Sequence):
    needs_marks = True


def lengths(sequence: Sequence, segment: Segment[Sequence]) -> tuple[list[int], list[int]]:
    """The lengths of a sequence that a segment marks, and those that it marks for a retry."""
    start = len(sequence) + 1
    retries = [] if segment.retry_mark is None else [start + segment.retry_mark]
    return [start + i for i in segment.marks], retries


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 59), st.sets(st.integers(1, 59)))
def test_each_end_of_a_message_is_marked_once_and_the_token_before_the_last(
    ids: list[int], cached: int, cuts: set[int]
) -> None:
    """They are, however the segment is divided; the logits of the last token alone are wanted."""
    sequence = Sequence()
    sequence.tokens = ids[: min(cached, len(ids) - 1)]
    start = len(sequence)
    whole = prompt_segment(sequence, ids, {0})
    marks, retries, wanted = list[int](), list[int](), list[int]()
    for begin, end in pairwise([start, *sorted(cut for cut in cuts if start < cut < len(ids)), len(ids)]):
        part = whole.part(begin - start, end - start)
        assert list(part.tokens) == ids[begin:end]
        found = lengths(sequence, part)
        marks += found[0]
        retries += found[1]
        wanted += [begin + i for i in part.wanted]
        sequence.tokens += part.tokens
    assert marks == [i + 1 for i in range(start, len(ids)) if ids[i] == 0]
    assert retries == ([len(ids) - 1] if len(ids) - 1 > start else [])
    assert wanted == [len(ids) - 1]


def test_a_long_message_has_marks_where_a_sequence_goes_back_to_marks_alone() -> None:
    ids = [0] + [1] * (2 * MARK_EVERY + 9) + [0] + [1] * MARK_EVERY
    end, at_ends = 2 * MARK_EVERY + 11, [1, 2 * MARK_EVERY + 11]
    marked = lengths(Sequence(), prompt_segment(Marked(), ids, {0}))[0]
    assert marked == [1, 1 + MARK_EVERY, 1 + 2 * MARK_EVERY, end, end + MARK_EVERY]
    assert lengths(Sequence(), prompt_segment(Sequence(), ids, {0}))[0] == at_ends
