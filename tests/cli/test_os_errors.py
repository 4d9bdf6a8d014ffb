"""Errors of the operating system and of Python are one line, and exit code 1."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from edgellm import cli
from edgellm.system.os_errors import explain_error


def recurse() -> None:
    recurse()


def without_memory() -> None:
    np.empty(1 << 50)


def with_too_many_files() -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/some/file")


def with_an_unmapped_library() -> None:
    try:
        raise ImportError("libx.so: failed to map segment from shared object")
    except ImportError as error:
        raise ImportError("PLEASE READ THIS\nfor advice") from error


def without_threads() -> None:
    raise RuntimeError("can't start new thread")


CASES = [
    (recurse, "nested too deeply, or contains itself"),
    (without_memory, "not enough memory"),
    (with_too_many_files, "too many files are open"),
    (with_an_unmapped_library, "not enough memory"),
    (without_threads, "no more threads"),
]


@pytest.mark.parametrize(("fail", "told"), CASES)
def test_one_line_says_what_to_do(
    fail: Callable[[], None], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_invoke", lambda arguments: fail())
    assert cli.run() == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("edgellm: ")
    assert told in err
    assert err.count("\n") == 1


def test_an_error_of_the_code_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(arguments: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(cli, "_invoke", fail)
    with pytest.raises(RuntimeError, match=r"^a mistake$"):
        cli.run()
    assert not explain_error(ImportError("No module named 'x'"))
    assert not explain_error(OSError(errno.ENOSPC, "No space left on device"))


@pytest.mark.skipif(sys.platform != "linux", reason="where the limit is met depends on the system")
def test_a_low_limit_of_open_files() -> None:
    """No kernel can be read, and none compiled."""
    code = """
import resource, sys
from edgellm.entry import main
resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
sys.argv = ["edgellm", "generate", "builtin", "-p", "Hello", "-n", "1"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = "edgellm: too many files are open: close other programs, or raise the limit (ulimit -n)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)
