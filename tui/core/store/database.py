"""The database file: opened, locked for each change, with one line for each failure."""

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

_LOCK_TIMEOUT_S = 5.0
"""How long another program may hold the lock of the file. A change takes milliseconds."""

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


_MAYBE_FULL = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""Codes for, among others, a disk without room for the files that SQLite puts beside a database."""

_PROBE = bytes(1 << 16)
"""More than the smallest file that SQLite puts beside a database."""


class Database:
    """A SQLite file that several threads and programs use at once.

    Only the user can read the file, and the folder if it is created here. All methods raise EdgeLLMError, in one line,
    if the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        with self._failures():
            _create(path)
            self._db = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)
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
        # A commit writes to the log without waiting for the disk. It survives kill -9, as the operating system has the
        # data. A power failure may lose the last commits, but damages nothing.
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA trusted_schema = OFF")
        search.prepare(self._db)

    @contextmanager
    def change(self) -> Iterator[Run]:
        """A transaction that writes: all of it or, if it raises, nothing. Yields the function that runs a statement."""
        with self._lock, self._failures(), self._db:
            self._db.execute("BEGIN IMMEDIATE")  # waits for the lock now, and not in the middle
            yield self._run

    @contextmanager
    def read(self) -> Iterator[Run]:
        """A transaction that reads one state of the file and does not make other programs wait."""
        with self._lock, self._failures(), self._db:
            self._db.execute("BEGIN")
            yield self._run

    def _run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._db.execute(statement, [storable(v) if isinstance(v, str) else v for v in values])

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn errors into an EdgeLLMError that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without details, which do not change the advice
            line = _FULL if code in _MAYBE_FULL and _is_full(self.path.parent) else _FAILURES.get(code)
            raise EdgeLLMError(f"{self.path}: {line or _other(error)}") from error
        except OSError as error:
            raise EdgeLLMError(f"{self.path}: {error.strerror or error}; set EDGELLM_HOME to another folder") from error
        except (InvalidError, UnicodeDecodeError) as error:  # the latter where SQLite quotes damaged text
            raise EdgeLLMError(f"{self.path}: {_DAMAGED} ({error})") from error


def _is_full(folder: Path) -> bool:
    """Whether a write to a folder fails because its disk is full or a quota is reached."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(_PROBE)
    except OSError as error:
        return error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    return False


def _other(error: Exception) -> str:
    return f"{' '.join(str(error).split())}; open the chat again, or move the file away to begin a new one"


def storable(text: str) -> str:
    """Text that UTF-8 can encode: half a surrogate pair, which a paste may contain, becomes a question mark."""
    return text.encode(errors="replace").decode()


def _create(path: Path) -> None:
    """Create an empty file if there is none. The files that SQLite puts beside it get its permissions."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
