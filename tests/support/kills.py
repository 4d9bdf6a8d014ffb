"""Conversions that are killed at any moment: `python -m support.kills 100`, more moments than the suite tries."""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from converters import quantize
from converters.output import temporary_path
from support.make_gguf import write_model

_CHILD = "import sys; from converters import quantize; print(flush=True); quantize(*sys.argv[1:], 'Q4_K_M', threads=1)"


def kill_at_random_moments(source: Path, folder: Path, times: int) -> dict[str, int]:
    """What was there after the kills: how often no target, a whole one, and one beside it that was begun."""
    whole, target = folder / "whole.gguf", folder / "out.gguf"
    quantize(source, whole, "Q4_K_M", threads=1)
    longest = 1.2 * _seconds_of_a_whole_run(source, target)
    seen = {"absent": 0, "whole": 0, "begun": 0}
    for moment in range(times):
        target.unlink(missing_ok=True)
        _kill(source, target, random.Random(moment).uniform(0, longest))
        seen["begun"] += temporary_path(target).exists()
        seen["whole" if target.exists() else "absent"] += 1
        assert not target.exists() or target.read_bytes() == whole.read_bytes()
    quantize(source, target, "Q4_K_M", force=True)
    assert target.read_bytes() == whole.read_bytes()
    assert {path.name for path in folder.iterdir()} == {"whole.gguf", "out.gguf"}
    return seen


def _start(source: Path, target: Path) -> "subprocess.Popen[bytes]":
    """A child that has loaded what it needs, and begins."""
    child = subprocess.Popen([sys.executable, "-c", _CHILD, source, target], stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    return child


def _seconds_of_a_whole_run(source: Path, target: Path) -> float:
    child, since = _start(source, target), time.monotonic()
    child.communicate()
    assert child.returncode == 0
    return time.monotonic() - since


def _kill(source: Path, target: Path, after: float) -> None:
    child = _start(source, target)
    time.sleep(after)
    child.send_signal(signal.SIGKILL)
    child.communicate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as used:
        model = write_model(Path(made) / "in.gguf", types="F16", layers=8)
        print(kill_at_random_moments(model, Path(used), int(sys.argv[1])))
