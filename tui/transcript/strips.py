"""Lines of the virtual list as strips of the screen."""

from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

from tui.transcript.lines import Line
from tui.transcript.virtual_list import LinePosition, VirtualList

GUTTER = 2
"""Cells at the left, for the bar of user messages and of the marked message."""


def gutter_line(entries: VirtualList, position: LinePosition, selected: int | None) -> Line:
    """A line with its bar, in the style of its entry."""
    row, styles = entries.rows[position.row], entries.styles
    line = entries.line(position)
    entry = row.content.entry
    above = position.block == 0 and position.line == 0  # the gap between two entries
    overlay = styles.unseen if entry.unseen else styles.thinking if position.block in row.content.thoughts else None
    if overlay is not None:
        segments = tuple(Segment(text, (style or Style.null()) + overlay) for text, style, _ in line.segments)
        line = line._replace(segments=segments)
    if entry.key == selected and not above:
        return line.after(Segment("┃ ", styles.selected))
    if entry.role == "user" and not above:
        return line.after(Segment("▎ ", styles.user + (overlay or Style.null())))
    return line.after(Segment("  ", Style.null()))


def strip(line: Line, base: Style, span: tuple[int, int] | None, highlight: Style) -> Strip:
    """A line as a strip over the `base` style. `span` are the start and end of the selected characters, -1 for the
    end of the line; they get the style `highlight`."""
    if span is None:
        return Strip([Segment(text, base + style if style else base) for text, style, _ in line.segments])
    start, end = span[0], len(line.text) if span[1] == -1 else span[1]
    segments, at = [], 0
    for text, style, _ in line.segments:
        first, last = (min(max(edge - at, 0), len(text)) for edge in (start, end))
        own = base + style if style else base
        parts = ((text[:first], own), (text[first:last], own + highlight), (text[last:], own))
        segments += [Segment(part, look) for part, look in parts if part]
        at += len(text)
    return Strip(segments)


def selected_text(entries: VirtualList, selection: Selection) -> str:
    """The text of a mouse selection as written: wrapped lines are joined again."""
    top = selection.start.y if selection.start else 0
    entries.measure(top, 0, (selection.end.y if selection.end else entries.tops()[-1]) - top + 1)
    bottom = selection.end.y if selection.end else entries.tops()[-1] - 1
    text = ""
    for y in range(top, bottom + 1):
        position = entries.position(y)
        span = selection.get_span(y)
        if position is None or span is None:
            break
        line = entries.line(position)
        first = max(0, span[0] - GUTTER - line.lead)
        last = None if span[1] == -1 else max(0, span[1] - GUTTER - line.lead)
        text += (line.join if y > top else "") + line.text[line.lead :].rstrip()[first:last]
    return text
