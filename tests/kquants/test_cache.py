"""Files in the cache folder: which are read, which are evicted, and when."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kquants import jit
from kquants.compiler import cache
from kquants.compiler.cache import KernelCache
from support.package import SMALL

DAY_S = 24 * 60 * 60
NAME = f"matmul_q4_k-{'0a' * 10}.o"
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX")


@pytest.fixture(params=["open", "by path"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KernelCache]:
    """A cache with a descriptor, and one without, as on Windows, where files are opened by path."""
    with cache.open_cache(tmp_path) as opened:
        assert opened
        yield opened if request.param == "open" else KernelCache(tmp_path, None)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def aged(path: Path, days: int) -> Path:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))
    return path


def test_what_is_written_is_read(folder: KernelCache) -> None:
    folder.write(NAME, b"code")
    assert folder.read(NAME) == b"code"
    folder.write(NAME, b"other code")
    assert folder.read(NAME) == b"other code"
    assert names(folder.path) == {NAME}
    assert folder.read("missing.o") is None


def test_a_file_under_the_name_of_another_is_damaged(folder: KernelCache) -> None:
    folder.write(NAME, b"code")
    (folder.path / NAME).rename(folder.path / f"other-{'0a' * 10}.o")
    assert folder.read(f"other-{'0a' * 10}.o") is None


def test_a_file_that_cannot_be_written_leaves_nothing(folder: KernelCache) -> None:
    (folder.path / NAME).mkdir()
    with pytest.raises(OSError):
        folder.write(NAME, b"code")
    assert names(folder.path) == {NAME}


@posix
def test_what_is_no_file_is_not_waited_for(folder: KernelCache) -> None:
    os.mkfifo(folder.path / NAME)
    (folder.path / "folder.o").mkdir()
    assert folder.read(NAME) is None
    assert folder.read("folder.o") is None


@posix
def test_a_link_in_place_of_a_file_is_not_followed(folder: KernelCache) -> None:
    folder.write(NAME, b"code")
    aside = (folder.path / NAME).rename(folder.path / "aside")
    (folder.path / NAME).symlink_to(aside)
    assert folder.read(NAME) is None


@posix
@pytest.mark.parametrize(("mode", "is_read"), [(0o600, True), (0o644, True), (0o664, False), (0o602, False)])
def test_a_file_to_which_others_may_write_is_not_read(mode: int, is_read: bool, folder: KernelCache) -> None:
    folder.write(NAME, b"code")
    (folder.path / NAME).chmod(mode)
    assert (folder.read(NAME) == b"code") == is_read


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only the superuser gives files away")
def test_the_file_of_another_user_is_not_read(folder: KernelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write(NAME, b"code")
    monkeypatch.setattr(os, "getuid", lambda: 2)
    assert folder.read(NAME) == b"code", "the superuser's is"
    os.chown(folder.path / NAME, 1, -1)
    assert folder.read(NAME) is None


@posix
def test_a_link_in_place_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to("elsewhere")
    with cache.open_cache(tmp_path / "cache") as own:
        assert own, "a person's own link, to a larger disk, say"
        own.write(NAME, b"code")
    assert names(tmp_path / "elsewhere") == {NAME}
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    monkeypatch.setattr(cache, "_SUPERUSER", -1)
    monkeypatch.setattr(cache, "_is_trusted", lambda status: True)  # wherever it leads
    with cache.open_cache(tmp_path / "cache") as another:
        assert another is None


@posix
def test_a_folder_that_is_replaced_stays_the_one_that_was_checked(tmp_path: Path) -> None:
    with cache.open_cache(tmp_path / "cache") as folder:
        assert folder
        folder.write(NAME, b"code")
        (tmp_path / "cache").rename(tmp_path / "away")
        with cache.open_cache(tmp_path / "cache") as other:
            assert other
            other.write(NAME, b"evil")
        assert folder.read(NAME) == b"code"
        folder.write("new.o", b"code")
        assert names(tmp_path / "cache") == {NAME}


# Exchanges two files or folders again and again; a new folder may be made meanwhile where one was.
EXCHANGE = """
import os, sys
one, other, third = sys.argv[1:]
while True:
    for source, target in ((one, third), (other, one), (third, other)):
        try:
            os.rename(source, target)
        except OSError:
            pass
"""


@posix
@pytest.mark.parametrize("swapped", ["folder", "file"])
def test_a_race_is_never_lost(swapped: str, tmp_path: Path) -> None:
    """While another process exchanges a trusted folder or file for an untrusted one, and back, only the trusted is
    read."""
    good, evil, seen = tmp_path / "cache", tmp_path / "evil", set[bytes | None]()
    for path, content in ((good, b"code"), (evil, b"evil")):
        with cache.open_cache(path) as folder:
            assert folder
            folder.write(NAME, content)
    pair = (good, evil) if swapped == "folder" else (good / NAME, evil / NAME)
    pair[1].chmod(0o777)
    with subprocess.Popen([sys.executable, "-S", "-c", EXCHANGE, *pair, tmp_path / "third"]) as another:
        left = 5000
        while left:
            with cache.open_cache(good) as folder:
                seen.add(folder.read(NAME) if folder else None)
            left -= len(seen) > 1  # the other process has begun
        another.kill()
    assert seen == {None, b"code"}


def test_a_file_that_no_process_has_read_for_long_is_evicted(folder: KernelCache) -> None:
    ours = [NAME, f"matmul_q4_k-emulated-{'0a' * 10}.o", f"closures-{'0a' * 10}.index", f"{'0a' * 8}.tmp"]
    theirs = ["hello.o", "speeds.json", "matmul_q4_k-0123456789abcdef.o", f"Hello-{'0a' * 10}.o", "abandoned.tmp"]
    path = folder.path
    for name in (*ours, *theirs):
        folder.write(name, b"code")
        aged(path / name, 101)
    (path / f"folder-{'0a' * 10}.o").mkdir()
    aged(path / f"folder-{'0a' * 10}.o", 100)
    folder.write(f"young-{'0a' * 10}.o", b"code")
    assert folder.read(ours[0]) == b"code"
    folder.evict_unused()
    assert names(path) == {ours[0], *theirs, f"folder-{'0a' * 10}.o", f"young-{'0a' * 10}.o"}


def test_ninety_days_count_from_a_read_that_left_no_trace(folder: KernelCache) -> None:
    folder.write(NAME, b"code")
    path = aged(folder.path / NAME, 98)  # and read nine days later
    folder.evict_unused()
    assert path.exists()
    aged(path, 101)
    folder.evict_unused()
    assert not path.exists()


@posix
def test_a_folder_that_others_may_read_is_left_alone(folder: KernelCache) -> None:
    folder.write(NAME, b"code")
    path = aged(folder.path / NAME, 200)
    folder.path.chmod(0o755)
    folder.evict_unused()
    assert path.exists()


def test_a_file_that_is_read_often_stays_as_it_was(folder: KernelCache) -> None:
    folder.write("file", b"code")
    path = folder.path / "file"
    for days, stays in ((1, True), (20, False)):
        time_before = aged(path, days).stat().st_mtime_ns
        folder.read("file")
        assert (path.stat().st_mtime_ns == time_before) == stays


def test_compiling_evicts_unused_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    old = tmp_path / NAME
    old.touch()
    aged(old, 101)
    jit.load([SMALL], tmp_path)
    assert not old.exists()
