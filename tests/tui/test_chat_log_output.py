"""The output of C libraries goes to the log and never to the screen."""

import subprocess
import sys
from pathlib import Path

from support import ROOT

_CHILD = """
import ctypes, logging, os, sys, warnings
from pathlib import Path
from tui.log_output import output_to_log
print("before", flush=True)
with output_to_log(Path(sys.argv[1])):
    ctypes.CDLL(None).write(2, b"native error\\n", 13)
    os.write(1, b"native word\\n")
    warnings.warn("a warning")
    logging.getLogger("x").error("an error")
    sys.__stderr__.write("the screen\\n")
    sys.__stderr__.flush()
print("after", flush=True)
os.write(2, b"after too\\n")
"""


def child(log: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _CHILD, str(log)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)


def test_what_libraries_print_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "new" / "chat.log"
    done = child(log)
    assert done.stdout == "before\nthe screen\nafter\n"
    assert done.stderr == "after too\n"
    text = log.read_text()
    for words in ("native error", "native word", "a warning", "an error"):
        assert words in text
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_long_log_is_put_aside(tmp_path: Path) -> None:
    log = tmp_path / "chat.log"
    log.write_bytes(b"x" * (1 << 20))
    child(log)
    assert (tmp_path / "chat.log.1").stat().st_size == 1 << 20
    assert "native error" in log.read_text()


def test_without_a_log_the_screen_stands_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = child(tmp_path / "file" / "chat.log")
    assert done.stdout == "before\nthe screen\nafter\n"
