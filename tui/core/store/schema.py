"""The tables, as the steps that make them. A step that was released never changes: what is new is a new step.

A chat's `leaf` is the last message shown, `deleted` the time since when it is hidden. Message ids grow and none is
used twice: a parent is older than its children, so that no path can be a circle, and a program that still holds the id
of a message that is gone for good cannot write to another one. `children` lets a chat be removed: without it, one of
4,000 messages took 2 seconds. `unindexed` lists messages that the search has yet to learn. Times are seconds since the
epoch, `value`, `stats` and `files` are JSON.

`model` is what a chat's model is called, and `path` where its file is, `builtin` for the one that comes with edgellm. A
chat from elsewhere, or whose model was known by a name alone in version 1, has no path. Settings of a model are kept
under its path; those under a name are from version 1, or of a model that has not been opened yet. `files` go with the
draft: pairs of a name and a text.
"""

import sqlite3
from pathlib import Path
from time import sleep

from edgellm.errors import EdgeLLMError

APPLICATION = 0x65646765
"""Marks a file as ours: "edge" in ASCII."""

MIGRATIONS = (
    f"""
    PRAGMA application_id = {APPLICATION};
    CREATE TABLE chats (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        system TEXT,
        model TEXT,
        leaf INTEGER,
        draft TEXT NOT NULL DEFAULT '',
        updated REAL NOT NULL,
        deleted REAL
    );
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        parent INTEGER CHECK (parent < id),
        role TEXT NOT NULL,
        text TEXT NOT NULL,
        created REAL NOT NULL,
        model TEXT,
        finish_reason TEXT,
        stats TEXT,
        dropped_tokens INTEGER NOT NULL,
        dropped_messages INTEGER NOT NULL,
        UNIQUE (chat, id),
        FOREIGN KEY (chat, parent) REFERENCES messages (chat, id)
    );
    CREATE INDEX children ON messages (chat, parent);
    CREATE TABLE unindexed (message INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE);
    CREATE TABLE settings (model TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE preferences (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL UNIQUE)
    """,
    """
    ALTER TABLE chats ADD COLUMN path TEXT;
    ALTER TABLE chats ADD COLUMN files TEXT NOT NULL DEFAULT '[]';
    UPDATE chats SET path = model
        WHERE model = 'builtin' OR substr(model, 1, 1) = '/' OR substr(model, 2, 2) = ':\\'
    """,
)
"""Step n brings a database from version n - 1 to n. Statements end in `;`, which appears nowhere else."""


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring a database to the newest version, each step in one transaction.

    Raises EdgeLLMError for another program's database and for one of a newer version; both stay as they are.
    """
    if _version(db, path) == len(MIGRATIONS):
        return
    _write_ahead(db)
    for version, step in enumerate(MIGRATIONS, 1):
        with db:
            db.execute("BEGIN IMMEDIATE")
            if _version(db, path) < version:  # or else another program did it while this one waited
                for statement in step.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {version}")


def _write_ahead(db: sqlite3.Connection) -> None:
    """Let readers and a writer not wait for each other, from now on for this file.

    SQLite does not wait for this as it does for a transaction: two programs that make the file at once would fail.
    """
    for attempt in range(100):
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or attempt == 99:
                raise
            sleep(0.05)


def _version(db: sqlite3.Connection, path: Path) -> int:
    """The version of a database, 0 for an empty one."""
    application, version, tables = db.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if tables and application != APPLICATION:
        raise EdgeLLMError(f"{path}: a database of another program; move it away to begin a new one")
    if version > len(MIGRATIONS):
        known = len(MIGRATIONS)
        raise EdgeLLMError(f"{path}: has version {version}, and this edgellm knows {known}; update edgellm")
    return int(version)
