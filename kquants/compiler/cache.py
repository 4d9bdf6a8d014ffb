"""The kernel cache: a folder of files with checksums. A file that no process has read for 90 days is evicted.

The files are executed, so the folder and each file must belong to this user or the superuser, and no other user may
write to them. The folder is opened once, and its owner and mode are read from its descriptor, as are those of each
opened file. Files are opened relative to that descriptor: a user who can rename the folders above cannot exchange the
folder between a check and a read. Windows opens no files relative to a folder; there they are opened by path.

Several processes and several versions of the program may share a folder. A process compiles a file again that another
process has evicted.
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
"""Names of our files. No other file is evicted: the user may have chosen a folder that holds more."""

_DAY_S = 24 * 60 * 60
_TOUCH_AFTER_S = 10 * _DAY_S
"""Reading a file sets its modification time if it is older than this, so that most starts write nothing."""
_UNUSED_S = 90 * _DAY_S + _TOUCH_AFTER_S

_SUPERUSER = 0
"""The user id of the superuser, who may have made the folder for all users, as in the image of a container."""


def _flags(*names: str) -> int:
    """Those of the named flags of `os.open` that this system has."""
    return sum(getattr(os, name, 0) for name in names)


_OPEN_FOLDER = _flags("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW")
_READ = _flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")  # O_NONBLOCK: do not wait for the writer of a FIFO
_WRITE = _flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_BINARY")


class KernelCache:
    """An open cache folder, see `open_cache`. `handle` is its descriptor, or None where files are opened by path."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self.path, self.handle = path, handle
        self._this = path if handle is None else handle

    def read(self, name: str) -> bytes | None:
        """The bytes that `write` wrote under this name; None if the file is missing, damaged or not trusted.

        Raises OSError if too many files are open.
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
        if _age_s(status) > _TOUCH_AFTER_S:
            with suppress(OSError):  # the modification time, as many systems do not keep the access time
                os.utime(self._place(name), dir_fd=self.handle)
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write bytes with their checksum; the file appears whole or not at all. Raises OSError."""
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
        """Whether files can be made in the folder, by its permissions."""
        return os.access(self._place("."), os.W_OK, dir_fd=self.handle)

    def changed_ns(self) -> int:
        """When a file was last added or removed, in nanoseconds of the file system's clock. Raises OSError."""
        return os.stat(self._this).st_mtime_ns

    def evict_unused(self) -> None:
        """Remove our files, of any version, that no process has read for 90 days.

        A folder that other users may read is left alone: they cannot set the modification time of what they read.
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
        """How `os` functions name a file, with `handle` as their `dir_fd`."""
        return name if self.handle is not None else str(self.path / name)


@contextmanager
def open_cache(path: Path) -> Iterator[KernelCache | None]:
    """Open a cache folder, made with mode 0700 if it is missing; None if it cannot be opened or is not trusted.

    It must belong to this user or the superuser, and so must a link in its place, and no other user may write to it.
    Raises OSError if too many files are open.
    """
    cache = _open(path)
    try:
        yield cache
    finally:
        if cache and cache.handle is not None:
            os.close(cache.handle)


def _open(path: Path) -> KernelCache | None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.open not in os.supports_dir_fd:
            return KernelCache(path, None)
        handle = os.open(_without_own_link(path), _OPEN_FOLDER)
    except OSError as error:
        _raise_if_too_many_open(error)
        return None
    if _is_trusted(os.fstat(handle)):
        return KernelCache(path, handle)
    os.close(handle)
    return None


def _without_own_link(path: Path) -> Path:
    """The target of a link whose owner is trusted; else the path itself (O_NOFOLLOW then refuses a link)."""
    status = path.lstat()
    return path.resolve() if stat.S_ISLNK(status.st_mode) and _is_owner_trusted(status) else path


def _is_trusted(status: os.stat_result) -> bool:
    """Whether only this user and the superuser can have written to a file or folder."""
    return os.name != "posix" or (_is_owner_trusted(status) and not status.st_mode & 0o022)


def _is_owner_trusted(status: os.stat_result) -> bool:
    return status.st_uid in (os.getuid(), _SUPERUSER)


def _raise_if_too_many_open(error: OSError) -> None:
    """If no more files can be opened, a cached file is not missing, and no compile worker could start."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error


def _checksum(name: str, content: bytes) -> bytes:
    """SHA-256 of a file's name and its bytes: a file under the name of another kernel is damaged."""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def _age_s(status: os.stat_result) -> float:
    return time.time() - status.st_mtime
