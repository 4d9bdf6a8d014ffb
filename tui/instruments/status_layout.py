"""What fits on one line: the important parts first, each in the longest form that leaves room for those before it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len

from tui.instruments.numbers import Words

GAP = 2
"""Columns between two parts."""

SegmentForms = Mapping[str, Sequence[Words]]
"""The ways to say each part, the shortest first."""


def fit_segments(forms: SegmentForms, order: Iterable[str], width: int) -> dict[str, Words]:
    """The parts that fit into `width` columns, by name.

    `order` names the parts by importance; a name's second mention is the place of its second form, and so on. What does
    not fit is passed over, and so are parts that `forms` does not have.
    """
    chosen: dict[str, Words] = {}
    mentions: Counter[str] = Counter()
    room = width + GAP  # each part brings its gap
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
    """How wide it is on the screen."""
    return sum(cell_len(text) for text, _ in words)


def join(chosen: Mapping[str, Words], left: Iterable[str], right: Iterable[str], width: int) -> Words:
    """One line: the `left` parts in their order, then space, then the `right` ones at the end."""
    before = _row(chosen, left)
    after = _row(chosen, right)
    return (*before, (" " * max(0, width - columns(before) - columns(after)), ""), *after)


def _row(chosen: Mapping[str, Words], names: Iterable[str]) -> Words:
    row: Words = ()
    for name in names:
        if name in chosen:
            row += ((" " * GAP, ""), *chosen[name]) if row else chosen[name]
    return row
