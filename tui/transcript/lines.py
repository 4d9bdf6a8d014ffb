"""Lines of segments, and wrapping text into them."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style

Span = tuple[str, Style]

_WIDE = "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U00020000-\U0003fffd"
_CLOSING = "\u3001\u3002\uff0c\uff0e\uff01\uff1f\uff1a\uff1b\uff09\u300d\u300f\u3011\u300b"
_WORD = re.compile(rf"[{_WIDE}][{_CLOSING}]*\s*|[^\s{_WIDE}]+[{_CLOSING}]*\s*|\s+")


class Line(NamedTuple):
    """One line on the screen.

    Its first `lead` characters are decoration, which is not copied. `join` is the text between it and the line before
    it in copied text: a line feed, or the spaces that wrapping removed.
    """

    segments: tuple[Segment, ...]
    lead: int = 0
    join: str = "\n"

    @property
    def text(self) -> str:
        """The text of all segments."""
        return "".join(segment.text for segment in self.segments)

    def after(self, prefix: Segment) -> "Line":
        """The line with more decoration before it."""
        return Line((prefix, *self.segments), self.lead + len(prefix.text), self.join)


BLANK = Line(())


def decoration(*segments: Segment) -> Line:
    """A line that is not copied, not even its line feed."""
    return Line(segments, sum(len(segment.text) for segment in segments), "")


def wrap(spans: Sequence[Span], width: int) -> list[Line]:
    """Wrap spans into lines of at most `width` cells (2 or more), between words where possible."""
    text = "".join(part for part, _ in spans)
    if "\n" not in text and cell_len(text) <= width:  # the usual case
        return [Line(tuple(Segment(part, style) for part, style in spans if part))]
    lines = []
    blocks = iter(spans)
    part, style = next(blocks, ("", Style.null()))
    begin = 0  # start of `part` in `text`
    for start, end, join in _breaks(text, width):
        segments = []
        while start < end:
            if begin + len(part) <= start:
                begin += len(part)
                part, style = next(blocks)
                continue
            stop = min(end, begin + len(part))
            segments.append(Segment(part[start - begin : stop - begin], style))
            start = stop
        lines.append(Line(tuple(segments), 0, join))
    return lines


def _breaks(text: str, width: int) -> Iterator[tuple[int, int, str]]:
    """Start and end of each line in `text`, and the text between it and the line before."""
    start = 0
    for line in text.split("\n"):
        if cell_len(line) <= width:
            yield start, start + len(line), "\n"
        else:
            yield from _break_line(line, start, width)
        start += len(line) + 1


def _break_line(line: str, offset: int, width: int) -> Iterator[tuple[int, int, str]]:
    start = end = used = 0  # the line so far is line[start:end], `used` cells with the spaces after it
    join = "\n"
    for match in _WORD.finditer(line):
        at, word = match.start(), match.group()
        body = word.rstrip()
        cells, spaces = cell_len(body), cell_len(word[len(body) :])
        if used and used + cells > width:
            yield offset + start, offset + end, join
            start, join, used = at, line[end:at], 0
        if cells > width:
            *full, body = chop_cells(body, width)
            for chunk in full:
                yield offset + at, offset + at + len(chunk), join
                at, join = at + len(chunk), ""
            start, cells = at, cell_len(body)
        end = at + len(body)
        used += cells + spaces
    yield offset + start, offset + end, join
