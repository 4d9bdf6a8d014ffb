"""Server-sent events, wherever the bytes are cut."""

import pytest

from edgellm.remote.events import MAX_EVENT_BYTES, TooLongError, event_data

STREAM = (
    "\ufeff: a comment\n\n"
    "data: one\n\n"
    "event: x\r\ndata:two\r\ndata: lines\r\n\r\n"
    "id: 7\rdata: schön \U0001f600\r\r"
    "data\n\ndata:  spaced\n: amid\nretry: 5\n\n"
    "data: last"
).encode()
DATA = ["one", "two\nlines", "schön \U0001f600", "", " spaced", "last"]


def test_each_event_is_read_by_the_standard() -> None:
    assert list(event_data([STREAM])) == DATA


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_pieces_of_any_size(size: int) -> None:
    assert list(event_data(STREAM[i : i + size] for i in range(0, len(STREAM), size))) == DATA


def test_a_cut_at_any_place() -> None:
    for at in range(len(STREAM)):
        assert list(event_data([STREAM[:at], b"", STREAM[at:]])) == DATA


def test_an_event_comes_before_the_next_bytes() -> None:
    def chunks() -> object:
        yield b"data: now\n\n"
        raise AssertionError("it waits")

    assert next(event_data(chunks())) == "now"  # type: ignore[arg-type]


def test_bytes_that_are_no_utf8() -> None:
    assert list(event_data([b"data: \xff\n\n"])) == ["\ufffd"]


@pytest.mark.parametrize("piece", [b"x" * 65_536, b"data: " + b"x" * 65_000 + b"\n", b"data:\n" * 10_000])
def test_a_line_or_event_without_end(piece: bytes) -> None:
    read = 0

    def endless() -> object:
        nonlocal read
        while True:
            read += 1
            yield piece

    with pytest.raises(TooLongError):
        list(event_data(endless()))  # type: ignore[arg-type]
    assert read * len(piece) <= MAX_EVENT_BYTES + len(piece)
