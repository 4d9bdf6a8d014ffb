"""Turns at compiling: one process at a time compiles for a cache folder, as several would all make the same kernels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import sleep

from kquants.compiler.cache import Folder

_LOOK_S = 0.2
_PATIENCE_S = 60
"""After so long without a new file, whoever has the turn is taken for suspended (Ctrl-Z); the longest kernel takes a
fifth of that on a slow core."""

_Release = Callable[[], object]


@contextmanager
def turn(folder: Folder | None, look: Callable[[], object]) -> Iterator[None]:
    """Wait for the turn at a folder, and have it until the end of the block, or of this process.

    `look` is called now and then while another process has it; something false ends the wait. File systems without
    locks, and no folder, have no turns.
    """
    release = _wait(folder, look) if folder else _nothing
    try:
        yield
    finally:
        release()


def _wait(folder: Folder, look: Callable[[], object]) -> _Release:
    """Wait for the lock; how to let go of it."""
    looks, changed = 0, folder.changed_ns()
    while (release := _acquire(folder)) is None:
        if not look() or looks * _LOOK_S > _PATIENCE_S:
            return _nothing
        sleep(_LOOK_S)
        before, changed = changed, folder.changed_ns()
        looks = looks + 1 if changed == before else 0
    return release


def _acquire(folder: Folder) -> _Release | None:
    """Take the lock if nobody has it; how to let go of it, or None if another process has it."""
    if folder.handle is None:
        return _acquire_file(folder)
    import fcntl

    # Of the folder itself, by its open descriptor, which no child gets: it ends with this process.
    try:
        fcntl.flock(folder.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:
        return _nothing
    return partial(fcntl.flock, folder.handle, fcntl.LOCK_UN)


def _acquire_file(folder: Folder) -> _Release | None:
    from filelock import FileLock, Timeout

    lock = FileLock(folder.path / "compiling.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return None
    except (OSError, NotImplementedError):
        return _nothing
    return partial(lock.release)


def _nothing() -> None:
    """Let go of no lock."""
