"""Ctrl-C while the command is imported: its exit code, and no traceback."""

import subprocess
import sys

import pytest

INTERRUPTED = """
import sys

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
