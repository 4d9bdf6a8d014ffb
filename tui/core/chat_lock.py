"""Places that running programs have taken, told by locks: these end with their process, however it ends."""

import os
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int, place: int, take: bool) -> None:
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK if take else msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(file: int, place: int, take: bool) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB if take else fcntl.LOCK_UN, 1, place)


class ChatLocks:
    """A byte of a file for each place. Where there can be no such file, or no locks in it, nobody meets anybody."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def take(self, place: int) -> bool:
        """Take a place. False if another program has it."""
        if self._file is not None:
            try:
                _lock(self._file, place, True)
            except (BlockingIOError, PermissionError):
                return False
            except OSError:  # a file system without locks
                return True
        return True

    def leave(self, place: int) -> None:
        """Let others have a place that was taken."""
        if self._file is not None:
            with suppress(OSError):
                _lock(self._file, place, False)

    def close(self) -> None:
        """Leave all places."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
