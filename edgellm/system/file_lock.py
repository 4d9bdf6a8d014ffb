"""Locks between processes, which end with the process that holds them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgellm.errors import EdgeLLMError


@contextmanager
def file_lock(path: Path, problem: str) -> Iterator[None]:
    """Hold the lock that is the file `path`. Raises EdgeLLMError with `problem` if another process has it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=0)
    try:
        with suppress(NotImplementedError):  # a file system without locks
            lock.acquire()
    except Timeout:
        raise EdgeLLMError(problem) from None
    try:
        yield
    finally:
        if os.name == "posix":  # while it is held: later it could be the lock of another process
            path.unlink(missing_ok=True)
        lock.release()
        if os.name != "posix":  # an open file cannot be removed there, nor the one that another process has
            with suppress(OSError):
                path.unlink()
