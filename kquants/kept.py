"""Files in the cache folder: each has a checksum, and is removed when no process has read it for 90 days.

Several processes and several versions of the program may share a folder. A process that finds a file removed by another
one makes it again.
"""

import hashlib
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from kquants.files import write_whole

_NAME = r"[a-z0-9_-]+-[0-9a-f]{20}\.(o|index)"
"""Names of our files. No others are removed: the user may have chosen a folder that holds more."""

_DAY_S = 24 * 60 * 60
_NOTED_S = 10 * _DAY_S
"""Reading a file sets its modification time if that is older than this. So most starts write nothing."""
_UNUSED_S = 90 * _DAY_S + _NOTED_S


def write(path: Path, content: bytes) -> None:
    """Keep bytes, their SHA-256 in front; the file appears whole or not at all. Raises OSError."""
    write_whole(path, hashlib.sha256(content).digest() + content)


def read(path: Path) -> bytes | None:
    """The bytes that `write` wrote, or None if the file is missing or damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, content = stored[:32], stored[32:]
    if hashlib.sha256(content).digest() != digest:
        return None
    _note_use(path)
    return content


def _note_use(path: Path) -> None:
    # The time of modification, as many systems do not keep the time of access.
    with suppress(OSError):
        if _age_s(path) > _NOTED_S:
            os.utime(path)


def remove_unused(folder: Path) -> None:
    """Remove our files of a folder that no process has read for 90 days, of whatever version.

    A folder that others may read is left alone: what they read keeps its time, as they may not set it.
    """
    with suppress(OSError):
        if folder.stat().st_mode & 0o077:
            return
        for path in folder.iterdir():
            with suppress(OSError):
                if re.fullmatch(_NAME, path.name) and _age_s(path) > _UNUSED_S:
                    path.unlink()


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime
