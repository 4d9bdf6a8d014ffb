"""Ctrl-C while the command is imported: its exit code, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTED = """
import sys
from pathlib import Path

class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            raise {error}

sys.meta_path.insert(0, Finder())
from edgellm.entry import main
sys.argv = ["edgellm", "--help"]
main()
"""


def run(module: str, error: str) -> subprocess.CompletedProcess[str]:
    """The command, where importing a module raises an error."""
    code = INTERRUPTED.format(module=module, error=error)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["edgellm.cli", "click"])
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "RuntimeError('of a class') from KeyboardInterrupt()"])
def test_ctrl_c_among_imports_leaves_no_traceback(module: str, error: str) -> None:
    done = run(module, error)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_what_is_no_interrupt_is_told() -> None:
    done = run("click", "RuntimeError('of its own')")
    assert done.returncode == 1
    assert "of its own" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_stdout_does_not_take_is_told(tmp_path: Path, unbuffered: str) -> None:
    """Unbuffered, Python itself would leave out what does not fit, without a word."""
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (1000, 1000)); from edgellm.entry import main; main()"
    command = [sys.executable, "-c", limit, "info", "builtin", "--tokens"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (1, "edgellm: stdout: File too large; make room, or write elsewhere\n")
