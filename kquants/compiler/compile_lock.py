"""The lock under which a process compiles for a cache folder: several would all compile the same kernels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import sleep

from kquants.compiler.cache import KernelCache

_POLL_S = 0.2
_TIMEOUT_S = 60
"""Seconds without a new file after which the process with the lock is taken for suspended (Ctrl-Z). The longest kernel
takes a fifth of that on a slow core."""

_Release = Callable[[], object]


@contextmanager
def compile_lock(cache: KernelCache | None, poll: Callable[[], object]) -> Iterator[None]:
    """Wait for the lock of a cache folder, and hold it until the end of the block, or of this process.

    `poll` is called every 0.2 s while another process holds the lock; a false result ends the wait. The block runs
    without the lock then, and where there is no folder, its file system has no locks, or the other process is taken for
    suspended.
    """
    release = _wait(cache, poll) if cache else _do_nothing
    try:
        yield
    finally:
        release()


def _wait(cache: KernelCache, poll: Callable[[], object]) -> _Release:
    """Wait for the lock; the function that releases it."""
    idle_polls, changed = 0, cache.changed_ns()
    while (release := _acquire(cache)) is None:
        if not poll() or idle_polls * _POLL_S > _TIMEOUT_S:
            return _do_nothing
        sleep(_POLL_S)
        before, changed = changed, cache.changed_ns()
        idle_polls = idle_polls + 1 if changed == before else 0
    return release


def _acquire(cache: KernelCache) -> _Release | None:
    """Acquire the lock if it is free; the function that releases it, or None if another process holds the lock."""
    if cache.handle is None:
        return _acquire_file(cache)
    import fcntl

    # The lock is on the folder itself, by its open descriptor, which no child inherits: it ends with this process.
    try:
        fcntl.flock(cache.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:
        return _do_nothing
    return partial(fcntl.flock, cache.handle, fcntl.LOCK_UN)


def _acquire_file(cache: KernelCache) -> _Release | None:
    from filelock import FileLock, Timeout

    lock = FileLock(cache.path / "compiling.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return None
    except (OSError, NotImplementedError):
        return _do_nothing
    return partial(lock.release)


def _do_nothing() -> None:
    """Release no lock."""
