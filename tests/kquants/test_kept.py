"""Files in the cache folder: which are removed, and when."""

import os
import time
from pathlib import Path

import pytest

from kquants import jit, kept
from support.package import SMALL

DAY_S = 24 * 60 * 60


def aged(path: Path, days: int) -> Path:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))
    return path


def test_what_nobody_has_read_for_long_is_removed(tmp_path: Path) -> None:
    ours = [f"matmul_q4_k-{'0a' * 10}.o", f"matmul_q4_k-emulated-{'0a' * 10}.o", f"closures-{'0a' * 10}.index"]
    theirs = ["hello.o", "speeds.json", "matmul_q4_k-0123456789abcdef.o", f"Hello-{'0a' * 10}.o"]
    for name in (*ours, *theirs):
        kept.write(tmp_path / name, b"code")
        aged(tmp_path / name, 101)
    (tmp_path / f"folder-{'0a' * 10}.o").mkdir()
    aged(tmp_path / f"folder-{'0a' * 10}.o", 100)
    kept.write(tmp_path / f"young-{'0a' * 10}.o", b"code")
    assert kept.read(tmp_path / ours[0]) == b"code"
    kept.remove_unused(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {ours[0], *theirs, f"folder-{'0a' * 10}.o", f"young-{'0a' * 10}.o"}
    kept.remove_unused(tmp_path / "missing")


def test_ninety_days_count_from_a_read_that_left_no_trace(tmp_path: Path) -> None:
    path = tmp_path / f"matmul_q4_k-{'0a' * 10}.o"
    kept.write(path, b"code")
    aged(path, 98)  # and read nine days later
    kept.remove_unused(tmp_path)
    assert path.exists()
    aged(path, 101)
    kept.remove_unused(tmp_path)
    assert not path.exists()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_folder_that_others_may_read_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / f"matmul_q4_k-{'0a' * 10}.o"
    kept.write(path, b"code")
    aged(path, 200)
    tmp_path.chmod(0o755)
    kept.remove_unused(tmp_path)
    assert path.exists()


def test_a_file_that_is_read_often_stays_as_it_was(tmp_path: Path) -> None:
    kept.write(tmp_path / "file", b"code")
    for days, stays in ((1, True), (20, False)):
        time_before = aged(tmp_path / "file", days).stat().st_mtime_ns
        kept.read(tmp_path / "file")
        assert ((tmp_path / "file").stat().st_mtime_ns == time_before) == stays


def test_to_compile_removes_what_is_unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    old = tmp_path / f"matmul_q4_k-{'0a' * 10}.o"
    old.touch()
    aged(old, 101)
    jit.load([SMALL], tmp_path)
    assert not old.exists()
