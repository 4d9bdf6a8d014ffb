"""The segment of a prompt, with marks where the sequence can go back to later."""

from collections.abc import Collection
from collections.abc import Sequence as Ids

from edgellm.engine.protocol import Segment, Sequence

MARK_EVERY = 1024
"""Tokens without the end of a message after which there is a mark: no long message is read again as a whole."""


def prompt_segment(sequence: Sequence, ids: Ids[int], ends: Collection[int]) -> Segment[Sequence]:
    """The segment that extends a sequence to exactly `ids`, which are more than it has; it wants the last logits.

    Marks are behind the tokens of `ends`, which end messages, and, where a sequence goes back to marks alone, after
    each MARK_EVERY tokens without one. The mark for a retry is before the last token of the prompt.
    """
    start, last = len(sequence), len(ids) - len(sequence) - 1
    marks = [at - start for at in _marks(ids, ends, MARK_EVERY if sequence.needs_marks else None) if at >= start]
    return Segment(sequence, ids[start:], [last], marks=marks, retry_mark=last - 1 if last else None)


def _marks(ids: Ids[int], ends: Collection[int], most: int | None) -> list[int]:
    """The indices of tokens with a mark behind them: those of `ends`, and each that is the `most`-th since a mark."""
    marks, last = list[int](), -1
    for i, token in enumerate(ids):
        if token in ends or i - last == most:
            marks.append(i)
            last = i
    return marks
