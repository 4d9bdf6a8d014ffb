"""Wrapping styled text into lines of a width."""

from collections.abc import Iterable, Iterator

from rich.cells import cell_len

Words = tuple[str, str]
"""Text, and the name of its style: one of `tui.views.lines.STYLES`."""

Line = tuple[Words, ...]


def wrapped(text: Iterable[Words], width: int) -> list[Line]:
    """The text in lines of at most `width` cells, broken anywhere, so that every character stays visible.

    Unprintable characters become Python escapes.
    """
    lines: list[Line] = []
    line: list[Words] = []
    room = width = max(width, 2)
    for words, style in text:
        for number, part in enumerate(words.split("\n")):
            if number:
                lines.append(tuple(line))
                line, room = [], width
            for piece, cells in _pieces(harmless(part), room, width):
                if cells > room:
                    lines.append(tuple(line))
                    line, room = [], width
                line.append((piece, style))
                room -= cells
    return [*lines, tuple(line)]


def harmless(text: str) -> str:
    """The text with Python escapes for unprintable characters, including line ends."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _pieces(text: str, room: int, width: int) -> Iterator[tuple[str, int]]:
    """The text in pieces with their cells: the first fits `room` if possible, the others `width`."""
    if text.isascii():
        first = text[:room]
        yield from ((piece, len(piece)) for piece in [first] if piece)
        for start in range(len(first), len(text), width):
            piece = text[start : start + width]
            yield piece, len(piece)
        return
    start = cells = 0
    for end, character in enumerate(text):
        size = cell_len(character)
        if cells + size > room:
            if end > start:
                yield text[start:end], cells
            start, cells, room = end, 0, width
        cells += size
    yield text[start:], cells
