"""Messages as rows of the database."""

import json
from dataclasses import fields, replace
from time import time
from typing import Any

from tui.core.store.preferences import parse_json
from tui.core.store.records import SavedChat
from tui.core.store.search import Run
from tui.core.store.validation import CALLS, STATS, Check, InvalidError
from tui.core.tree import Message

FIELDS = tuple(field.name for field in fields(Message))
_COLUMNS = [name for name in FIELDS if name != "id"]
_GROWING = ("text", "model", "finish_reason", "stats", "dropped_tokens", "dropped_messages", "tool_calls")
_JSON: dict[str, Check] = {"stats": STATS, "tool_calls": CALLS}


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
    return [_parsed(dict(zip(FIELDS, row, strict=True))) for row in rows]


def as_json(message: Message) -> dict[str, Any]:
    """The fields of a message as JSON; calls of tools have the form of OpenAI's API."""
    return {name: getattr(message, name) for name in FIELDS} | {
        "stats": None if message.stats is None else dict(message.stats),
        "tool_calls": [call.as_message() for call in message.tool_calls],
    }


def _value(message: Message, name: str) -> Any:
    if name in _JSON:
        value = as_json(message)[name]
        return json.dumps(value) if value not in (None, []) else None
    return getattr(message, name)


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    """A row with parsed figures and calls; damaged ones are left out, so that the chat still opens."""
    return row | {name: _valid(row[name], check) for name, check in _JSON.items()}


def _valid(text: str | None, check: Check) -> Any:
    try:
        return None if text is None else check(parse_json(text))
    except InvalidError:
        return None
