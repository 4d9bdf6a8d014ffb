"""The end of what a process wrote to stderr, as one line of a message."""

import io

import pytest

from edgellm.process.spawn import stderr_tail


def test_short_logs_are_whole() -> None:
    assert stderr_tail(io.BytesIO(b"one\n\n  two \n")) == "one; two"
    assert stderr_tail(io.BytesIO(b"\n \n")) == ""


@pytest.mark.parametrize("log", ["a word " * 99, "line\n" * 99])
def test_long_logs_begin_with_a_whole_word(log: str) -> None:
    tail = stderr_tail(io.BytesIO(log.encode()))
    assert tail[0] == "…" and 290 < len(tail) <= 300
    assert set(tail[1:].replace(";", "").split()) <= {"a", "word", "line"}


def test_one_long_word_is_cut() -> None:
    assert stderr_tail(io.BytesIO(b"x" * 999)) == "…" + 299 * "x"
