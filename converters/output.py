"""Atomic output: the target file appears complete or not at all.

The data goes to `.NAME.edgellm-part` beside the target, which is renamed once it is synced to the disk. The writer
holds a lock on it, which ends with its process: the next run reuses the file of a killed run, and raises an error if
another process is writing it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class OutputFile:
    """A file that any thread may write, at any offset. Methods raise EdgeLLMError, for example on a full disk."""

    def __init__(self, handle: int, target: Path) -> None:
        self._handle, self._target = handle, target
        self._seeking = Lock()

    def write(self, data: memoryview, offset: int) -> None:
        """Write all bytes of `data` at byte `offset`."""
        with wrap_os_errors(self._target):
            while data:
                written = self._write_some(data, offset)
                data, offset = data[written:], offset + written

    def sync(self) -> None:
        """Wait until everything written is on the disk. Other threads can go on writing meanwhile."""
        with wrap_os_errors(self._target):
            os.fsync(self._handle)

    def _write_some(self, data: memoryview, offset: int) -> int:
        if sys.platform != "win32":
            return os.pwrite(self._handle, data, offset)
        with self._seeking:
            os.lseek(self._handle, offset, os.SEEK_SET)
            return os.write(self._handle, data)


def temporary_path(target: Path) -> Path:
    """The temporary file beside `target`."""
    return target.with_name(f".{target.name}.edgellm-part")


@contextmanager
def atomic_output(target: Path, nbytes: int) -> Iterator[OutputFile]:
    """A new file of `nbytes` bytes, which replaces `target` at the end of the block; an exception removes it.

    Raises EdgeLLMError if the file cannot be written, or another process is writing it.
    """
    temporary = temporary_path(target)
    with wrap_os_errors(target):
        handle = _open_locked(temporary, target)
    try:
        with wrap_os_errors(target):
            os.ftruncate(handle, nbytes)
        yield OutputFile(handle, target)
        with wrap_os_errors(target):
            _keep(handle, temporary, target)
    finally:
        _discard(handle, temporary)


def _keep(handle: int, temporary: Path, target: Path) -> None:
    """Sync the file and give it the target's name while it is still locked, so that no other process reuses it."""
    os.fsync(handle)
    if sys.platform == "win32":
        os.close(handle)  # Windows renames no open file
    temporary.replace(target)
    _sync_folder(target.parent)


def _discard(handle: int, temporary: Path) -> None:
    """Close the file, and remove it unless it was renamed to the target."""
    if sys.platform == "win32":  # Windows removes no open file, so the file of another run is safe
        with suppress(OSError):
            os.close(handle)
        with suppress(OSError):
            temporary.unlink()
        return
    with suppress(OSError):
        if _is_at(temporary, handle):
            temporary.unlink()
    with suppress(OSError):
        os.close(handle)


def _open_locked(temporary: Path, target: Path) -> int:
    """Open the temporary file, empty and locked."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        handle = os.open(temporary, flags, 0o666)
        if not _lock(handle):
            os.close(handle)
            name = shown_path(target)
            raise EdgeLLMError(f"{name}: another process is writing it; wait for it, or choose another name")
        if _is_at(temporary, handle):
            os.ftruncate(handle, 0)
            return handle
        os.close(handle)  # its owner renamed or removed it before we got the lock


def _lock(handle: int) -> bool:
    """Try to lock the file; return whether it worked. The lock ends when the file is closed or the process ends."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks: no other process holds one either
        pass
    return True


def _is_at(path: Path, handle: int) -> bool:
    """Whether `path` is still the open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle))
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that the new name is on the disk, where the system supports it."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # some network file systems cannot
                os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def wrap_os_errors(target: Path) -> Iterator[None]:
    """Turn OSError into an EdgeLLMError that names the file and says what to do."""
    try:
        yield
    except OSError as error:
        advice = "make room, or write elsewhere"
        raise EdgeLLMError(f"{shown_path(target)}: cannot be written ({error.strerror}); {advice}") from error
