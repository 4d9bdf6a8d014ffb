"""A lock between processes: one pull at a time into a folder."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable


@contextmanager
def pull_lock(folder: Path, what: str) -> Iterator[None]:
    """Hold the lock of a staging folder: the file KEY.lock beside it. `what` is the name of what is pulled.

    The lock ends with the process. Raises EdgeLLMError if another process has it.
    """
    from filelock import FileLock, Timeout

    path = folder.with_suffix(".lock")
    lock = FileLock(path, timeout=0)
    try:
        with suppress(NotImplementedError):  # a file system without locks
            lock.acquire()
    except Timeout:
        raise EdgeLLMError(f"{printable(what)} is being pulled by another edgellm; wait for it, or stop it") from None
    try:
        yield
    finally:
        lock.release()
        path.unlink(missing_ok=True)
