"""Server-sent events, as the HTML standard has them (section 9.2.6): bytes in, the data of each event out."""

import re
from collections.abc import Iterable, Iterator

MAX_EVENT_BYTES = 4 << 20
"""The most of one event; its text is a few tokens, or a whole reply of a server that does not stream."""

_LINE_BYTES = 64
"""What a line takes beside its text, so that lines without text are limited, too."""

_LINE_END = re.compile(rb"\r\n|\n|\r")


class TooLongError(Exception):
    """An event has more than MAX_EVENT_BYTES."""


def event_data(chunks: Iterable[bytes]) -> Iterator[str]:
    """The data of each event, wherever chunks are cut; also of a last one that no empty line ends.

    Comments, names and ids of events are left out. Raises TooLongError.
    """
    data: list[bytes] = []
    held = 0
    for line in _lines(chunks):
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
                held += len(value) + _LINE_BYTES
                _check(held)
        elif data:
            yield _text(data)
            data, held = [], 0
    if data:
        yield _text(data)


def _text(data: list[bytes]) -> str:
    return b"\n".join(data).decode(errors="replace")


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines that end in CR LF, LF or CR. A byte order mark at the beginning is left out."""
    rest, scanned, after_cr, first = bytearray(), 0, False, True
    for chunk in chunks:
        rest += chunk.removeprefix(b"\n") if after_cr else chunk
        after_cr = after_cr and not chunk
        begin = 0
        for end in _LINE_END.finditer(rest, scanned):
            line, begin = bytes(rest[begin : end.start()]), end.end()
            after_cr = end.group() == b"\r" and begin == len(rest)
            yield line.removeprefix(b"\xef\xbb\xbf") if first else line
            first = False
        del rest[:begin]
        scanned = len(rest)
        _check(scanned)
    if rest:
        yield bytes(rest)


def _check(held: int) -> None:
    if held > MAX_EVENT_BYTES:
        raise TooLongError
