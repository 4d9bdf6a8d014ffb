"""Compiling: one process at a time for a cache folder, others load what it makes; and nobody compiles for the dead."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kquants import jit
from kquants.compiler import cache as kept
from kquants.compiler import compilers
from kquants.compiler import turn as turns
from kquants.compiler.cache import Folder
from kquants.compiler.turn import turn
from support import ROOT
from support.kernels import cache_folder
from support.package import SMALL

HOLDER = """
import sys
from pathlib import Path
from kquants.compiler.turn import turn
from kquants.compiler.cache import opened
with opened(Path(sys.argv[1])) as folder, turn(folder, lambda: False):
    print("has it", flush=True)
    sys.stdin.read()
"""

Wait = Callable[[Callable[[], None]], list[tuple[int, int]]]
"""See `waited_for`."""


@pytest.fixture(params=["open", "by path"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    """A folder as all systems have it, and as Windows does, where files of open folders cannot be named."""
    with kept.opened(tmp_path) as opened:
        assert opened
        yield opened if request.param == "open" else Folder(tmp_path, None)


@pytest.fixture
def other(folder: Folder) -> Iterator[Folder]:
    """The same folder as another process has it."""
    with kept.opened(folder.path) as opened:
        assert opened
        yield opened if folder.handle is not None else Folder(folder.path, None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_LOOK_S", 0.001)


def test_one_waits_until_the_other_is_done(folder: Folder, other: Folder) -> None:
    looks = []
    with turn(folder, lambda: pytest.fail("nobody has it")):

        def look() -> bool:
            looks.append(turns._acquire(other))
            return len(looks) < 3

        with turn(other, look):
            pass
    assert looks == [None] * 3
    with turn(other, lambda: pytest.fail("it was given back")):
        assert turns._acquire(folder) is None


def test_the_turn_ends_with_an_error(folder: Folder, other: Folder) -> None:
    with pytest.raises(KeyboardInterrupt), turn(folder, lambda: True):
        raise KeyboardInterrupt
    assert turns._acquire(other)


def test_who_makes_nothing_is_not_waited_for(folder: Folder, other: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspended process; while files appear, it is not."""
    monkeypatch.setattr(turns, "_PATIENCE_S", 0.005)
    looks: list[int] = []

    def look() -> bool:
        looks.append(len(looks))
        if len(looks) < 20:
            folder.write(f"{len(looks)}.o", b"code")
        assert len(looks) < 10_000, "it is waited for"
        return True

    with turn(folder, lambda: True), turn(other, look):
        assert len(looks) >= 20


@pytest.mark.skipif(os.name != "posix", reason="locks of folders are POSIX")
def test_a_file_system_without_locks_has_no_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def fail(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with kept.opened(tmp_path) as folder, turn(folder, lambda: pytest.fail("there is nobody to wait for")):
        pass
    with turn(None, lambda: pytest.fail("there is nobody to wait for")):
        pass


def test_the_turn_of_the_killed_is_free(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-P", "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env={**os.environ, "PYTHONPATH": str(ROOT)}) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"has it\n"
        with kept.opened(tmp_path) as folder:
            assert folder
            assert turns._acquire(folder) is None
            holder.kill()
            holder.wait()
            assert turns._acquire(folder)


@pytest.fixture
def waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wait:
    """`waited_for(work)`: what is told while SMALL is loaded; another has the turn, and does some work meanwhile."""
    monkeypatch.setattr(jit, "_ADDRESSES", {})

    def load(work: Callable[[], None]) -> list[tuple[int, int]]:
        told: list[tuple[int, int]] = []

        def progress(done: int, total: int) -> None:
            told.append((done, total))
            if len(told) == 3:
                work()

        with kept.opened(tmp_path) as other, turn(other, lambda: True):
            jit.load([SMALL], tmp_path, progress)
        return told

    return load


@pytest.fixture
def another_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Puts SMALL into the folder, as another process would; this one fails if it compiles."""
    monkeypatch.setattr(jit, "_ADDRESSES", {})
    jit.load([SMALL], cache_folder())
    jit._ADDRESSES.clear()
    monkeypatch.setattr(compilers, "compile_missing", lambda *given: pytest.fail("it compiles"))

    def make() -> None:
        for path in cache_folder().glob(f"{SMALL}-{'[0-9a-f]' * 20}.o"):
            shutil.copy(path, tmp_path)

    return make


def test_what_another_made_is_loaded(waited_for: Wait, another_makes: Callable[[], None]) -> None:
    told = waited_for(another_makes)
    assert jit._ADDRESSES[SMALL]
    assert told[:3] == [(0, 1)] * 3
    assert told[-1] == (1, 1)


def test_what_another_made_just_before_the_turn_is_loaded(
    another_makes: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = turns._acquire

    def acquire_late(folder: Folder) -> object:
        another_makes()
        return acquire(folder)

    monkeypatch.setattr(turns, "_acquire", acquire_late)
    jit.load([SMALL], tmp_path)
    assert jit._ADDRESSES[SMALL]


def test_an_interrupt_ends_the_wait(
    waited_for: Wait,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        waited_for(interrupt)


def test_a_compiler_ends_with_its_parent() -> None:
    """Not after the kernel at which it is, which may take seconds: the system closes the pipes of the killed."""
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
