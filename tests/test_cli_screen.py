"""What commands write alike on stderr."""

import warnings

import pytest

from edgellm.cli.screen import notices


def test_each_warning_is_a_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with notices():
            for text in ("one", "two", "one"):
                warnings.warn(text, stacklevel=1)
    assert capsys.readouterr() == ("", 2 * "edgellm: note: one\nedgellm: note: two\n")
