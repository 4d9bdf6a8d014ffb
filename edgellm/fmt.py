"""Formats sizes, counts, durations, tables and untrusted text for messages; imports the standard library alone."""

from collections.abc import Iterable, Iterator, Sequence

_MAX_CELL_WIDTH = _PATH_LENGTH = 400
_SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | set(map(chr, _SELECTORS))
"""Printable characters by Python that show nothing: a joiner, fillers, an empty braille cell, variation selectors."""


def printable(text: str, limit: int = 80) -> str:
    """Untrusted text on one line of at most `limit` characters, safe for a terminal.

    Control characters, formatting characters (also bidirectional ones), other characters that show nothing, and lone
    surrogates become Python escapes.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() and c not in _BLANK else ascii(c)[1:-1] for c in cut)


def shown_path(path: object) -> str:
    """A path, or what names one, as messages show it: `printable`, and whole in nearly all cases."""
    return printable(str(path), _PATH_LENGTH)


def size(nbytes: float) -> str:
    """A number of bytes in decimal units: `1.2 GB`."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if nbytes < 999.5:
            return f"{nbytes:.0f} bytes" if unit == "bytes" else f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} EB"


def count(n: float) -> str:
    """A large number, such as that of parameters: `1.24 B`."""
    for unit in ("", " k", " M", " B"):
        if n < 999.5:
            return f"{n:.3g}{unit}"
        n /= 1000
    return f"{n:.3g} T"


def counted(n: int, what: str) -> str:
    """A number with a noun in singular or plural: `1 thread`, `2,048 tokens`."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def duration(seconds: float) -> str:
    """Minutes and seconds, from an hour on also hours: `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def table(head: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """The lines of a table: columns as wide as their widest cell, two spaces between them. Cells are `printable`."""
    lines = [tuple(printable(cell, _MAX_CELL_WIDTH) for cell in row) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
