"""The stored chats. Each change is saved before its method returns."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.tools.calls import ToolCall
from tui.core.store import validation
from tui.core.store.database import Database
from tui.core.store.messages import insert_chat, insert_row, replace_row, select_rows
from tui.core.store.preferences import Preferences, parse_json
from tui.core.store.records import ChatRow, Files, SavedChat
from tui.core.store.search import catch_up, find, forget, forget_message
from tui.core.tree import Message, Tree

_UNDELETE_DAYS = 30
_TEXTS = ("title", "system", "model", "draft", "path", "files")


class Store:
    """The chats and the `preferences` of the user, in one SQLite file.

    Threads and programs may use it at once: each method is one transaction of a few milliseconds. Methods raise
    EdgeLLMError, in one line, if the file cannot be read or written. A deleted chat is hidden, and removed when the
    store is opened 30 days later.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(path)
        self.preferences = Preferences(self._database)
        self.purge(_UNDELETE_DAYS)

    def chats(self, search: str = "") -> list[ChatRow]:
        """The chats with all words of `search` in title or messages, or all chats; the one used last is the first."""
        if search.strip():
            with self._database.change() as run:
                catch_up(run)
        with self._database.read() as run:
            rows = run(
                "SELECT id, CAST(title AS TEXT), CAST(model AS TEXT), CAST(updated AS REAL),"
                " (SELECT count(*) FROM messages WHERE chat = chats.id)"
                " FROM chats WHERE deleted IS NULL ORDER BY updated DESC, id DESC"
            )
            chats = [ChatRow(*row) for row in rows]
            if not search.strip():
                return chats
            hits = find(run, search, {chat.id: chat.title for chat in chats})
            return [replace(chat, hit=hits[chat.id][0], snippet=hits[chat.id][1]) for chat in chats if chat.id in hits]

    def new_chat(self, title: str, system: str | None, model: str | None, path: str | None = None) -> int:
        """Create a chat. Returns its id."""
        return self.put(SavedChat(0, title, system, model, path=path))

    def put(self, chat: SavedChat) -> int:
        """Store a copy of a chat, with new ids for its messages. Returns its id."""
        return self.put_all([chat])[0]

    def put_all(self, chats: Iterable[SavedChat]) -> list[int]:
        """Store copies of chats, all of them or none. Returns their ids."""
        with self._database.change() as run:
            new = [insert_chat(run, chat) for chat in chats]
            catch_up(run)
            return new

    def load(self, chat: int) -> SavedChat:
        """A chat with all its messages, also a deleted chat. Raises EdgeLLMError if it does not exist."""
        with self._database.read() as run:
            texts = ", ".join(f"CAST({name} AS TEXT)" for name in _TEXTS)
            found = run(f"SELECT {texts}, leaf FROM chats WHERE id = ?", chat).fetchone()
            if not found:
                raise self._gone()
            title, system, model, draft, path, files, leaf = found
            messages, attached = validation.messages(select_rows(run, chat)), validation.files(parse_json(files))
        if messages and leaf not in {message.id for message in messages}:
            leaf = messages[-1].id  # the program was killed before `show` of the first message
        return SavedChat(chat, title, system, model, Tree(messages, leaf), draft, path, attached)

    def add(self, chat: int, parent: int | None, role: str, text: str, model: str | None = None) -> Message:
        """Add a message after `parent`. A reply begins empty and grows by `update`."""
        return self._add(chat, Message(0, parent, role, text, time(), model))

    def add_result(self, chat: int, parent: int, call: ToolCall, text: str) -> Message:
        """Add the result of a call after `parent`, the message with the call or the result before."""
        return self._add(chat, Message(0, parent, "tool", text, time(), name=call.name, tool_call_id=call.id))

    def _add(self, chat: int, message: Message) -> Message:
        with self._database.change() as run:
            catch_up(run)
            run("UPDATE chats SET updated = ?, deleted = NULL WHERE id = ?", message.created, chat)
            return replace(message, id=insert_row(run, chat, message))

    def newest(self, chat: int) -> int:
        """The id of the message added last to a chat, of all versions; 0 if there is none."""
        with self._database.read() as run:
            return int(run("SELECT max(id) FROM messages WHERE chat = ?", chat).fetchone()[0] or 0)

    def update(self, message: Message) -> None:
        """Save a message; from any thread."""
        with self._database.change() as run:
            if not replace_row(run, message):
                raise self._gone()

    def withdraw(self, message: int, instead: int) -> None:
        """Remove a message and show another version. It stays if another program added a message after it."""
        with self._database.change() as run:
            found = run("SELECT chat FROM messages WHERE id = ?", message).fetchone()
            chat = found[0] if found else 0
            if chat and not run("SELECT 1 FROM messages WHERE chat = ? AND parent = ?", chat, message).fetchone():
                run("UPDATE chats SET leaf = ? WHERE id = ? AND leaf = ?", instead, chat, message)
                run("DELETE FROM messages WHERE id = ?", message)
                forget_message(run, chat, message)

    def show(self, chat: int, leaf: int | None) -> None:
        """Store which message is the last one shown."""
        self._set(chat, leaf=leaf)

    def rename(self, chat: int, title: str) -> None:
        """Give a chat another title."""
        self._set(chat, title=title)

    def set_system(self, chat: int, text: str | None) -> None:
        """Store the system prompt of a chat, or none."""
        self._set(chat, system=text)

    def set_model(self, chat: int, model: str | None, path: str | None = None) -> None:
        """Store the name and the path of the model that replies in a chat."""
        self._set(chat, model=model, path=path)

    def set_draft(self, chat: int, text: str) -> None:
        """Store the draft of a chat."""
        self._set(chat, draft=text)

    def set_files(self, chat: int, files: Files) -> None:
        """Store the files attached to the draft of a chat."""
        self._set(chat, files=json.dumps(files))

    def delete(self, chat: int) -> None:
        """Hide a chat; `undelete` brings it back."""
        self._set(chat, deleted=time())

    def undelete(self, chat: int) -> None:
        """Bring a deleted chat back."""
        self._set(chat, deleted=None)

    def purge(self, days: float = 0) -> None:
        """Remove the chats that were deleted at least `days` ago."""
        with self._database.change() as run:
            for (chat,) in run("SELECT id FROM chats WHERE deleted <= ?", time() - 86400 * days).fetchall():
                forget(run, chat)
                run("DELETE FROM chats WHERE id = ?", chat)

    def close(self) -> None:
        """Close the file; later calls raise EdgeLLMError."""
        self._database.close()

    def _set(self, chat: int, **values: Any) -> None:
        columns = ", ".join(f"{name} = ?" for name in values)
        with self._database.change() as run:
            if not run(f"UPDATE chats SET {columns} WHERE id = ?", *values.values(), chat).rowcount:
                raise self._gone()

    def _gone(self) -> EdgeLLMError:
        return EdgeLLMError("there is no such chat, or it was deleted; /chats lists all")
