"""Tables of text."""

from collections.abc import Iterable, Iterator, Sequence

from edgellm.fmt import printable

_WIDEST = 400


def table(head: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Lines of columns as wide as their widest cell, two spaces between; no cell breaks its line."""
    lines = [tuple(printable(cell, _WIDEST) for cell in row) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
