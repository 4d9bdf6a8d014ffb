"""Progress and warnings of commands on stderr."""

import sys
import warnings

import pytest

from edgellm.cli.progress import ProgressLine, show_warnings


def test_each_warning_is_a_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with show_warnings():
            for text in ("one", "two", "one"):
                warnings.warn(text, stacklevel=1)
    assert capsys.readouterr() == ("", 2 * "edgellm: note: one\nedgellm: note: two\n")


def test_after_compiling_the_line_shows_the_current_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    compiling = "compiling kernels for this CPU: "
    progress = ProgressLine()
    progress.compiling(2, 2)
    progress.working("measuring")
    progress.compiling(0, 1)
    progress.compiling(1, 1)
    lines = capsys.readouterr().err.split("\r\x1b[K")
    assert lines == ["", f"{compiling}2 of 2", "measuring", f"{compiling}0 of 1", "measuring"]
