"""Fitting segments on one line by priority, each in the longest form that leaves room for more important ones."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len

from tui.instruments.numbers import Words

GAP = 2
"""Columns between two segments."""

SegmentForms = Mapping[str, Sequence[Words]]
"""The forms of each segment by name, the shortest first."""


def fit_segments(forms: SegmentForms, order: Iterable[str], width: int) -> dict[str, Words]:
    """The segments that fit into `width` columns, by name.

    `order` lists names by priority; the second mention of a name is the priority of its second form, and so on. Forms
    that do not fit, and names that are not in `forms`, are skipped.
    """
    chosen: dict[str, Words] = {}
    mentions: Counter[str] = Counter()
    room = width + GAP  # each segment adds its gap
    for name in order:
        known, mention = forms.get(name, ()), mentions[name]
        mentions[name] += 1
        if mention < len(known):
            more = columns(known[mention]) - columns(chosen[name]) if name in chosen else columns(known[mention]) + GAP
            if more <= room:
                chosen[name] = known[mention]
                room -= more
    return chosen


def columns(words: Words) -> int:
    """The width on the screen, in columns."""
    return sum(cell_len(text) for text, _ in words)


def join(chosen: Mapping[str, Words], left: Iterable[str], right: Iterable[str], width: int) -> Words:
    """One line: the `left` segments in their order, then space, then the `right` ones at the end."""
    before = _row(chosen, left)
    after = _row(chosen, right)
    return (*before, (" " * max(0, width - columns(before) - columns(after)), ""), *after)


def _row(chosen: Mapping[str, Words], names: Iterable[str]) -> Words:
    row: Words = ()
    for name in names:
        if name in chosen:
            row += ((" " * GAP, ""), *chosen[name]) if row else chosen[name]
    return row
