"""Locks of chats among running programs. The operating system releases them when a process ends, however it ends."""

import os
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int, byte: int, take: bool) -> None:
        os.lseek(file, byte, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK if take else msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(file: int, byte: int, take: bool) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB if take else fcntl.LOCK_UN, 1, byte)


class ChatLocks:
    """One byte of a file for each lock. Without such a file, or on a file system without locks, `acquire` succeeds."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def acquire(self, byte: int) -> bool:
        """Take a lock. Returns False if another program holds it."""
        if self._file is not None:
            try:
                _lock(self._file, byte, True)
            except (BlockingIOError, PermissionError):
                return False
            except OSError:  # a file system without locks
                return True
        return True

    def release(self, byte: int) -> None:
        """Release a lock that this program holds."""
        if self._file is not None:
            with suppress(OSError):
                _lock(self._file, byte, False)

    def close(self) -> None:
        """Release all locks."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
