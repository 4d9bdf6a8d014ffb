"""The file that a conversion writes: it appears under its name whole, or not at all.

All is written to `.NAME.edgellm-part` beside the target, which takes the target's name once it is on the disk. Who
writes it holds a lock on it, which ends with the process: what a killed run left is taken over by the next one, and
what belongs to a run that is still going is left alone.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class OutputFile:
    """A file being written, by any thread, at any offset. Its methods raise EdgeLLMError, on a full disk for one."""

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
        """Wait until the disk has all that was written. Meanwhile other threads can go on writing."""
        with wrap_os_errors(self._target):
            os.fsync(self._handle)

    def _write_some(self, data: memoryview, offset: int) -> int:
        if sys.platform != "win32":
            return os.pwrite(self._handle, data, offset)
        with self._seeking:
            os.lseek(self._handle, offset, os.SEEK_SET)
            return os.write(self._handle, data)


def temporary_path(target: Path) -> Path:
    """The file beside `target` that is written first."""
    return target.with_name(f".{target.name}.edgellm-part")


@contextmanager
def atomic_output(target: Path, nbytes: int) -> Iterator[OutputFile]:
    """A new file of `nbytes` bytes, which takes `target`'s place at the end of the block; on any error it is removed.

    Raises EdgeLLMError where it cannot be written, or another process is writing it.
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
    """Give the file its name once the disk has it, still locked, so that nobody takes it over before."""
    os.fsync(handle)
    if sys.platform == "win32":
        os.close(handle)  # Windows renames no open file
    temporary.replace(target)
    _sync_folder(target.parent)


def _discard(handle: int, temporary: Path) -> None:
    """Close the file, and remove it unless it has the target's name by now."""
    if sys.platform == "win32":  # which removes no open file: not this one, nor another run's
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
    """The temporary file: empty, and ours alone."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        handle = os.open(temporary, flags, 0o666)
        if not _lock(handle):
            os.close(handle)
            name = printable(str(target), 400)
            raise EdgeLLMError(f"{name}: another process is writing it; wait for it, or choose another name")
        if _is_at(temporary, handle):
            os.ftruncate(handle, 0)
            return handle
        os.close(handle)  # while we waited, its owner gave it the target's name, or removed it


def _lock(handle: int) -> bool:
    """Whether this process may write the file; the lock ends when the file is closed, or the process killed."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks: then nobody has one
        pass
    return True


def _is_at(path: Path, handle: int) -> bool:
    """Whether the open file still has that name."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle))
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, too, where the system can."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # some file systems of networks have no such thing
                os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def wrap_os_errors(target: Path) -> Iterator[None]:
    """Turn an error of the system into one that names the file and says what to do."""
    try:
        yield
    except OSError as error:
        advice = "make room, or write elsewhere"
        raise EdgeLLMError(f"{printable(str(target), 400)}: cannot be written ({error.strerror}); {advice}") from error
