"""The cache folder and its files: each has a checksum, and is removed when no process has read it for 90 days.

What lies in the folder gets executed, so it matters who may write there. The folder is opened once: its owner and mode
are read from what was opened, and so are those of each file. Files are found from the open folder on. Whoever may
rename the folders above it cannot put another one in its place between a check and a read. Windows finds no files that
way; there they have paths.

Several processes and several versions of the program may share a folder. A process that finds a file removed by another
one makes it again.
"""

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

_NAME = r"[a-z0-9_-]+-[0-9a-f]{20}\.(o|index)|[0-9a-f]{16}\.tmp"
"""Names of our files. No others are removed: the user may have chosen a folder that holds more."""

_DAY_S = 24 * 60 * 60
_NOTED_S = 10 * _DAY_S
"""Reading a file sets its modification time if that is older than this. So most starts write nothing."""
_UNUSED_S = 90 * _DAY_S + _NOTED_S

_SUPERUSER = 0
"""Who can write everywhere, and may have made the folder for all, as in the image of a container."""


def _flags(*names: str) -> int:
    """Flags of `os.open` by their names, those that this system has."""
    return sum(getattr(os, name, 0) for name in names)


_OPEN_FOLDER = _flags("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW")
_READ = _flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")  # to open a FIFO would else wait for its writer
_WRITE = _flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_BINARY")


class Folder:
    """An open cache folder that `opened` gives; `handle` is its file descriptor, None where files have paths."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self.path, self.handle = path, handle
        self._this = path if handle is None else handle

    def read(self, name: str) -> bytes | None:
        """The bytes that `write` wrote under this name; None if the file is missing, damaged or not to be trusted.

        Raises OSError where too many files are open.
        """
        try:
            with FileIO(self._place(name), opener=lambda place, _: os.open(place, _READ, dir_fd=self.handle)) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or not _is_trusted(status):
                    return None
                stored = file.readall()
        except OSError as error:
            _raise_if_too_many_open(error)
            return None
        digest, content = stored[:32], stored[32:]
        if _checksum(name, content) != digest:
            return None
        if _age_s(status) > _NOTED_S:
            with suppress(OSError):  # the time of modification, as many systems do not keep the time of access
                os.utime(self._place(name), dir_fd=self.handle)
        return content

    def write(self, name: str, content: bytes) -> None:
        """Keep bytes, their checksum in front; the file appears whole or not at all. Raises OSError."""
        temporary = f"{os.urandom(8).hex()}.tmp"
        handle = os.open(self._place(temporary), _WRITE, 0o600, dir_fd=self.handle)
        try:
            with open(handle, "wb") as file:
                file.write(_checksum(name, content) + content)
            places = self._place(temporary), self._place(name)
            os.replace(*places, src_dir_fd=self.handle, dst_dir_fd=self.handle)
        except BaseException:
            with suppress(OSError):
                os.unlink(self._place(temporary), dir_fd=self.handle)
            raise

    def is_writable(self) -> bool:
        """Whether files can be made here, as far as the system tells beforehand."""
        return os.access(self._place("."), os.W_OK, dir_fd=self.handle)

    def changed_ns(self) -> int:
        """When a file last appeared or went here, in nanoseconds of the file system's clock. Raises OSError."""
        return os.stat(self._this).st_mtime_ns

    def remove_unused(self) -> None:
        """Remove our files that no process has read for 90 days, of whatever version.

        A folder that others may read is left alone: what they read keeps its time, as they may not set it.
        """
        with suppress(OSError):
            if os.stat(self._this).st_mode & 0o077:
                return
            for name in os.listdir(self._this):
                with suppress(OSError):
                    place = self._place(name)
                    if re.fullmatch(_NAME, name) and _age_s(os.lstat(place, dir_fd=self.handle)) > _UNUSED_S:
                        os.unlink(place, dir_fd=self.handle)

    def _place(self, name: str) -> str:
        """What names a file to the system, with `handle` for `dir_fd`."""
        return name if self.handle is not None else str(self.path / name)


@contextmanager
def opened(path: Path) -> Iterator[Folder | None]:
    """The folder, made with mode 0700 if it is missing; None where it cannot be had or others may write to it.

    It must belong to this user or the superuser, and so must a link in its place. Raises OSError where too many files
    are open.
    """
    folder = _open(path)
    try:
        yield folder
    finally:
        if folder and folder.handle is not None:
            os.close(folder.handle)


def _open(path: Path) -> Folder | None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.open not in os.supports_dir_fd:
            return Folder(path, None)
        handle = os.open(_without_own_link(path), _OPEN_FOLDER)
    except OSError as error:
        _raise_if_too_many_open(error)
        return None
    if _is_trusted(os.fstat(handle)):
        return Folder(path, handle)
    os.close(handle)
    return None


def _without_own_link(path: Path) -> Path:
    """Where a link leads whose owner is trusted. Any other link stays, and is not followed."""
    status = path.lstat()
    return path.resolve() if stat.S_ISLNK(status.st_mode) and _is_owner_trusted(status) else path


def _is_trusted(status: os.stat_result) -> bool:
    """Whether nobody but this user and the superuser can have written to a file or folder."""
    return os.name != "posix" or (_is_owner_trusted(status) and not status.st_mode & 0o022)


def _is_owner_trusted(status: os.stat_result) -> bool:
    return status.st_uid in (os.getuid(), _SUPERUSER)


def _raise_if_too_many_open(error: OSError) -> None:
    """Where no more files can be opened, those that are there are not missing, and no compiler could start."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error


def _checksum(name: str, content: bytes) -> bytes:
    """SHA-256 of a file's name and its bytes: a file renamed to that of another kernel is a damaged one."""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def _age_s(status: os.stat_result) -> float:
    return time.time() - status.st_mtime
