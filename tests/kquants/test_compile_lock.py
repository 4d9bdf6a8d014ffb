"""One process at a time compiles for a cache folder, others load the result; a compile worker ends with its parent."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kquants import jit
from kquants.compiler import cache, compile_workers
from kquants.compiler import compile_lock as locks
from kquants.compiler.cache import KernelCache
from kquants.compiler.compile_lock import compile_lock
from support import ROOT
from support.kernels import cache_folder
from support.package import SMALL

HOLDER = """
import sys
from pathlib import Path
from kquants.compiler.compile_lock import compile_lock
from kquants.compiler.cache import open_cache
with open_cache(Path(sys.argv[1])) as folder, compile_lock(folder, lambda: False):
    print("has it", flush=True)
    sys.stdin.read()
"""

Wait = Callable[[Callable[[], None]], list[tuple[int, int]]]
"""See `waited_for`."""


@pytest.fixture(params=["open", "by path"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KernelCache]:
    """A cache with a descriptor, and one without, as on Windows, where files are opened by path."""
    with cache.open_cache(tmp_path) as opened:
        assert opened
        yield opened if request.param == "open" else KernelCache(tmp_path, None)


@pytest.fixture
def other(folder: KernelCache) -> Iterator[KernelCache]:
    """The same folder as another process has it."""
    with cache.open_cache(folder.path) as opened:
        assert opened
        yield opened if folder.handle is not None else KernelCache(folder.path, None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_POLL_S", 0.001)


def test_one_waits_until_the_other_is_done(folder: KernelCache, other: KernelCache) -> None:
    polls = []
    with compile_lock(folder, lambda: pytest.fail("the lock is free")):

        def poll() -> bool:
            polls.append(locks._acquire(other))
            return len(polls) < 3

        with compile_lock(other, poll):
            pass
    assert polls == [None] * 3
    with compile_lock(other, lambda: pytest.fail("the lock was released")):
        assert locks._acquire(folder) is None


def test_an_error_releases_the_lock(folder: KernelCache, other: KernelCache) -> None:
    with pytest.raises(KeyboardInterrupt), compile_lock(folder, lambda: True):
        raise KeyboardInterrupt
    assert locks._acquire(other)


def test_a_suspended_process_is_not_waited_for(
    folder: KernelCache, other: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that adds no files for long is taken for suspended."""
    monkeypatch.setattr(locks, "_TIMEOUT_S", 0.005)
    polls: list[int] = []

    def poll() -> bool:
        polls.append(len(polls))
        if len(polls) < 20:
            folder.write(f"{len(polls)}.o", b"code")
        assert len(polls) < 10_000, "it is waited for"
        return True

    with compile_lock(folder, lambda: True), compile_lock(other, poll):
        assert len(polls) >= 20


@pytest.mark.skipif(os.name != "posix", reason="locks of folders are POSIX")
def test_without_locks_there_is_no_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def fail(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def poll() -> None:
        pytest.fail("there is no process to wait for")

    monkeypatch.setattr(fcntl, "flock", fail)
    with cache.open_cache(tmp_path) as folder, compile_lock(folder, poll):
        pass
    with compile_lock(None, poll):
        pass


def test_a_killed_process_releases_the_lock(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-P", "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env={**os.environ, "PYTHONPATH": str(ROOT)}) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"has it\n"
        with cache.open_cache(tmp_path) as folder:
            assert folder
            assert locks._acquire(folder) is None
            holder.kill()
            holder.wait()
            assert locks._acquire(folder)


@pytest.fixture
def waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wait:
    """`waited_for(work)`: the progress told while SMALL is loaded; another process holds the lock and does the work."""
    monkeypatch.setattr(jit, "_ADDRESSES", {})

    def load(work: Callable[[], None]) -> list[tuple[int, int]]:
        told: list[tuple[int, int]] = []

        def progress(done: int, total: int) -> None:
            told.append((done, total))
            if len(told) == 3:
                work()

        with cache.open_cache(tmp_path) as other, compile_lock(other, lambda: True):
            jit.load([SMALL], tmp_path, progress)
        return told

    return load


@pytest.fixture
def another_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Puts SMALL into the folder, as another process would; this one fails if it compiles."""
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    jit.load([SMALL], cache_folder())
    jit._ADDRESSES.clear()
    monkeypatch.setattr(compile_workers, "compile_missing", lambda *given: pytest.fail("it compiles"))

    def make() -> None:
        for path in cache_folder().glob(f"{SMALL}-{'[0-9a-f]' * 20}.o"):
            shutil.copy(path, tmp_path)

    return make


def test_what_another_compiled_is_loaded(waited_for: Wait, another_compiles: Callable[[], None]) -> None:
    told = waited_for(another_compiles)
    assert jit._ADDRESSES[SMALL]
    assert told[:3] == [(0, 1)] * 3
    assert told[-1] == (1, 1)


def test_what_another_compiled_just_before_the_lock_was_free_is_loaded(
    another_compiles: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = locks._acquire

    def acquire_late(folder: KernelCache) -> object:
        another_compiles()
        return acquire(folder)

    monkeypatch.setattr(locks, "_acquire", acquire_late)
    jit.load([SMALL], tmp_path)
    assert jit._ADDRESSES[SMALL]


def test_an_interrupt_ends_the_wait(
    waited_for: Wait,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        waited_for(interrupt)


def test_a_compile_worker_ends_with_its_parent() -> None:
    """At once, not after the kernel that it compiles, which may take seconds."""
    command = [sys.executable, "-m", "kquants.compiler.compile", jit.fingerprint()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as child:
        assert child.stdin
        assert child.stdout
        for name in ("dequantize_bf16", "matmul_q4_k"):
            print(name, file=child.stdin, flush=True)
        assert child.stdout.readline()
        child.stdin.close()
        assert child.stdout.read() == ""
        assert child.wait() == 0
