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


def of_the_user(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder where a user has files with the names of our packages."""
    for name in ("tui", "converters", "kquants", "json"):
        (folder / f"{name}.py").write_text("print('of the user')")
    command, env = [sys.executable, *arguments], {**os.environ, "EDGELLM_HOME": str(folder), **environment}
    return subprocess.run(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["convert", "none", "-o", "x"], "edgellm: none: there is no"),
        (["chat", "--plain", "none"], "edgellm: there is no file and no model named none"),
    ],
)
def test_files_in_the_current_folder_shadow_no_package(tmp_path: Path, arguments: list[str], problem: str) -> None:
    done = of_the_user(tmp_path, "-m", "edgellm", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    notes = done.stderr.splitlines()  # on a busy machine the chat says first that it starts the engine
    assert notes[-1].startswith(problem) and len(notes) <= 2


def test_a_file_that_shadows_a_package_is_named(tmp_path: Path) -> None:
    """A file on PYTHONPATH: it is not run."""
    (tmp_path / "path").mkdir()
    mine = tmp_path / "path/converters.py"
    mine.write_text("print('of the user')")
    told = f"{mine} hides the package converters of edgellm: rename it, or keep its folder out of Python's path\n"
    done = of_the_user(tmp_path, "-m", "edgellm", "convert", "x", "-o", "y", PYTHONPATH=str(mine.parent))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"edgellm: {told}")
    done = of_the_user(tmp_path, "-P", "-c", "from edgellm import convert", PYTHONPATH=str(mine.parent))
    assert not done.stdout
    assert done.stderr.endswith(f"EdgeLLMError: {told}")


def test_an_error_that_is_no_interrupt_is_reported() -> None:
    done = run("click", "RuntimeError('of its own')")
    assert done.returncode == 1
    assert "of its own" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_error_of_stdout_is_reported(tmp_path: Path, unbuffered: str) -> None:
    """Without buffers, Python itself would silently drop text that does not fit."""
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (1000, 1000)); from edgellm.entry import main; main()"
    command = [sys.executable, "-c", limit, "info", "builtin", "--tokens"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (1, "edgellm: stdout: File too large; make room, or write elsewhere\n")
