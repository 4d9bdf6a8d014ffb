"""Messages as rows of the database."""

import json
from dataclasses import fields, replace
from time import time
from typing import Any

from tui.core.store.preferences import parse_json
from tui.core.store.records import SavedChat
from tui.core.store.search import Run
from tui.core.store.validation import STATS, InvalidError
from tui.core.tree import Message

FIELDS = tuple(field.name for field in fields(Message))
_COLUMNS = [name for name in FIELDS if name != "id"]
_GROWING = ("text", "model", "finish_reason", "stats", "dropped_tokens", "dropped_messages")


def insert_chat(run: Run, chat: SavedChat) -> int:
    """Store a chat and its messages under new ids. Returns the id of the chat."""
    values = (chat.title, chat.system, chat.model, chat.path, chat.draft, time())
    statement = "INSERT INTO chats (title, system, model, path, draft, updated) VALUES (?, ?, ?, ?, ?, ?)"
    new = run(statement, *values).lastrowid
    assert new is not None
    ids: dict[int | None, int | None] = {None: None}
    for message in chat.tree.messages.values():
        ids[message.id] = insert_row(run, new, replace(message, parent=ids[message.parent]))
    run("UPDATE chats SET leaf = ? WHERE id = ?", ids[chat.tree.leaf], new)
    return new


def insert_row(run: Run, chat: int, message: Message) -> int:
    """Store a message under a new id. Returns the id."""
    columns, places = ", ".join(_COLUMNS), ", ".join("?" for _ in _COLUMNS)
    values = [_value(message, name) for name in _COLUMNS]
    new = run(f"INSERT INTO messages (chat, {columns}) VALUES (?, {places})", chat, *values).lastrowid
    assert new is not None
    run("INSERT INTO unindexed VALUES (?)", new)
    return new


def replace_row(run: Run, message: Message) -> bool:
    """Store the fields of a message that may change. Returns False if there is no such message."""
    columns = ", ".join(f"{name} = ?" for name in _GROWING)
    values = [_value(message, name) for name in _GROWING]
    if not run(f"UPDATE messages SET {columns} WHERE id = ?", *values, message.id).rowcount:
        return False
    run("INSERT OR IGNORE INTO unindexed VALUES (?)", message.id)
    return True


def select_rows(run: Run, chat: int) -> list[dict[str, Any]]:
    """The fields of a chat's messages, parents first, not validated."""
    rows = run(f"SELECT {', '.join(FIELDS)} FROM messages WHERE chat = ? ORDER BY id", chat)
    return [_with_stats(dict(zip(FIELDS, row, strict=True))) for row in rows]


def _value(message: Message, name: str) -> Any:
    value = getattr(message, name)
    return json.dumps(dict(value)) if name == "stats" and value is not None else value


def _with_stats(row: dict[str, Any]) -> dict[str, Any]:
    """A row with parsed figures; damaged figures are left out, so that the chat still opens."""
    try:
        return {**row, "stats": None if row["stats"] is None else STATS(parse_json(row["stats"]))}
    except InvalidError:
        return {**row, "stats": None}
