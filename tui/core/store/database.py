"""The file: opened, locked for each change, and every failure told in one line."""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from edgellm.errors import EdgeLLMError
from tui.core.store import search
from tui.core.store.schema import migrate
from tui.core.store.search import Run
from tui.core.store.validation import InvalidError

_PATIENCE_S = 5.0
"""How long another program may keep the file locked; its changes, like ours, take milliseconds."""

_DAMAGED = "damaged, or no database; move it away, with -wal and -shm beside it, to begin a new one"
_LOCKED = "another program has it locked; close that one and try again"
_READ_ONLY = "cannot be written; check the permissions of the file and its folder, or set EDGELLM_HOME to another one"
_FULL = "the disk is full, and changes are not saved; make room on it"
_FAILURES = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _READ_ONLY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: "cannot be read or written (disk I/O error); check the disk that it is on",
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_CONSTRAINT: "the chat or message is no longer there; open the chat again",
}


_OF_A_FULL_DISK = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""What SQLite says of a disk that has no room for the files beside a database, as of other failures."""

_PROBE = bytes(1 << 16)
"""More than the least that SQLite puts beside a database."""


class Database:
    """A SQLite file for several threads and programs at once. Raises EdgeLLMError, in one line, if it cannot be used.

    The file is the user's alone, and so is its folder where it is made here.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        with self._failures():
            _make(path)
            self._db = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file; later calls raise EdgeLLMError."""
        with self._lock:
            self._db.close()

    def _prepare(self) -> None:
        migrate(self._db, self.path)
        self._db.text_factory = partial(str, encoding="utf-8", errors="replace")
        # A commit writes to the log and does not wait for the disk. That is enough against kill -9: what was written
        # is the system's, not the process's. A power cut may take the last commits with it, but breaks nothing.
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA trusted_schema = OFF")
        search.prepare(self._db)

    @contextmanager
    def _change(self) -> Iterator[Run]:
        """One transaction that changes something, or nothing if it fails; gives what runs a statement in it."""
        with self._lock, self._failures(), self._db:
            self._db.execute("BEGIN IMMEDIATE")  # waits for the other programs now, and not in the middle
            yield self._run

    @contextmanager
    def _look(self) -> Iterator[Run]:
        """One transaction that sees one state of the file, whatever other programs write; they do not wait."""
        with self._lock, self._failures(), self._db:
            self._db.execute("BEGIN")
            yield self._run

    def _run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._db.execute(statement, [storable(v) if isinstance(v, str) else v for v in values])

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """What goes wrong, as an EdgeLLMError that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest tells more than anyone can act on
            told = _FULL if code in _OF_A_FULL_DISK and _is_full(self.path.parent) else _FAILURES.get(code)
            raise EdgeLLMError(f"{self.path}: {told or _other(error)}") from error
        except OSError as error:
            raise EdgeLLMError(f"{self.path}: {error.strerror or error}; set EDGELLM_HOME to another folder") from error
        except (InvalidError, UnicodeDecodeError) as error:  # the latter where SQLite quotes the damage
            raise EdgeLLMError(f"{self.path}: {_DAMAGED} ({error})") from error


def _is_full(folder: Path) -> bool:
    """Whether nothing can be written in a folder for want of room on its disk, or of a quota."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(_PROBE)
    except OSError as error:
        return error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    return False


def _other(error: Exception) -> str:
    return f"{' '.join(str(error).split())}; open the chat again, or move the file away to begin a new one"


def storable(text: str) -> str:
    """Text as UTF-8 can have it: half a surrogate pair, as a paste may bring it, becomes a question mark."""
    return text.encode(errors="replace").decode()


def _make(path: Path) -> None:
    """The file, empty and private if there is none; what SQLite puts beside it takes over its permissions."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
