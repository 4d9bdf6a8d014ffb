"""The batches of a prompt, with marks where the sequence can go back to later."""

from collections.abc import Collection, Iterator
from collections.abc import Sequence as Ids

from edgellm.engine.protocol import Segment, Sequence

MARK_EVERY = 1024
"""Tokens without the end of a message after which there is a mark: no long message is read again as a whole."""


def prompt_segments(sequence: Sequence, ids: Ids[int], rows: int, ends: Collection[int]) -> Iterator[Segment[Sequence]]:
    """The segments of up to `rows` tokens that extend a sequence to exactly `ids`; each wants its last logits.

    Marks are behind the tokens of `ends`, which end messages, and, where a sequence goes back to marks alone, after
    each MARK_EVERY tokens without one. The mark for a retry is before the last token of the prompt.
    """
    marks = _marks(ids, ends, MARK_EVERY if sequence.needs_marks else None)
    before_last = len(ids) - 2
    for start in range(len(sequence), len(ids), rows):
        part = range(start, min(len(ids), start + rows))
        within = [at - start for at in marks if at in part]
        retry_mark = before_last - start if before_last in part else None
        tokens = ids[part.start : part.stop]
        yield Segment(sequence, tokens, [len(tokens) - 1], marks=within, retry_mark=retry_mark)


def _marks(ids: Ids[int], ends: Collection[int], most: int | None) -> list[int]:
    """The indices of tokens with a mark behind them: those of `ends`, and each that is the `most`-th since a mark."""
    marks, last = list[int](), -1
    for i, token in enumerate(ids):
        if token in ends or i - last == most:
            marks.append(i)
            last = i
    return marks
