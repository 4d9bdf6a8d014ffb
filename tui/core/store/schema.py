"""The tables, as the steps that create them. A released step never changes; a change of the tables is a new step.

A chat's `leaf` is the last message of its path, `deleted` the time of its deletion. Message ids grow and are never
reused: a parent has a smaller id than its children, so that no path has a cycle, and a program that holds the id of a
removed message cannot write to another one. The index `children` makes the removal of a chat fast: without it, a chat
of 4,000 messages took 2 seconds. `unindexed` lists the messages that are not in the search index yet. Times are in
seconds since the epoch; `value`, `stats` and `files` are JSON.

`model` is the name of a chat's model, `path` the path of its file, or `builtin` for the model that comes with edgellm.
A chat that was imported, or whose model version 1 stored by its name alone, has no path. Settings of a model are stored
under its path; those under a name are from version 1, or of a model that was not opened since. `files` are attached to
the draft: pairs of a name and a text.

`tool_calls` are JSON as in messages of OpenAI's API, NULL without any. `name` and `tool_call_id` say which call a
message of the role `tool` is the result of.
"""

import sqlite3
from pathlib import Path
from time import sleep

from edgellm.errors import EdgeLLMError

APPLICATION = 0x65646765
"""Marks a database of edgellm: "edge" in ASCII."""

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
    """
    ALTER TABLE messages ADD COLUMN tool_calls TEXT;
    ALTER TABLE messages ADD COLUMN name TEXT;
    ALTER TABLE messages ADD COLUMN tool_call_id TEXT
    """,
)
"""Step n migrates a database from version n - 1 to n. Statements end with `;`, which appears nowhere else."""


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Migrate a database to the newest version, each step in one transaction.

    Raises EdgeLLMError for a database of another program or of a newer version; both stay unchanged.
    """
    if _version(db, path) == len(MIGRATIONS):
        return
    _use_write_ahead_log(db)
    for version, step in enumerate(MIGRATIONS, 1):
        with db:
            db.execute("BEGIN IMMEDIATE")
            if _version(db, path) < version:  # else another program migrated it meanwhile
                for statement in step.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {version}")


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log, with which readers and a writer do not wait for each other.

    SQLite does not wait for the lock here as it does for a transaction: two programs that create the file at the same
    time would fail without the retries.
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
