"""A child process that asks llama.cpp for tests, through llama-cpp-python.

In a child, because llama.cpp aborts the process on errors and writes to file descriptor 2; in one for all tests of a
worker, because llama-cpp-python takes half a second to import. Run as a module, this file is that child: it reads
pickled pairs (function, job) from stdin and writes the pickled results.
"""

import atexit
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import IO, Any

import pytest

from support import with_support


def ask_llama_cpp(function: Callable[[Any], Any], job: Any) -> Any:
    """What a function of a module gives for a job, in the child; the test skips if there is no llama.cpp to ask."""
    if find_spec("llama_cpp") is None:
        pytest.skip("llama-cpp-python is not installed; it is the oracle of this test")
    child, errors = _child()
    assert child.stdin and child.stdout
    errors.truncate(0)
    pickle.dump((function, job), child.stdin)
    child.stdin.flush()
    try:
        return pickle.load(child.stdout)
    except EOFError:
        _child.cache_clear()
        raise AssertionError(f"llama.cpp failed on {job}: exit {child.wait()}, {_last(errors)}") from None


@cache
def _child() -> tuple["subprocess.Popen[bytes]", IO[bytes]]:
    """The child, begun at the first question and after an error, and the file of what it says on stderr."""
    errors = tempfile.TemporaryFile("a+b")  # noqa: SIM115  as long as the child
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=pipe,
        stdout=pipe,
        stderr=errors,
        env=with_support() | {"GGML_NO_BACKTRACE": "1"},  # it would follow what failed, and be all of the last lines
    )
    atexit.register(_end, child, errors)
    return child, errors


def _end(child: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
    child.kill()
    child.communicate()
    errors.close()


def _last(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read()[-2000:].decode(errors="replace")


def main() -> None:
    """Answer until stdin ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else writes to file descriptor 1
    while True:
        try:
            function, job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(function(job), answers)
        answers.flush()


if __name__ == "__main__":
    main()
