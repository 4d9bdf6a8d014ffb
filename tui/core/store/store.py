"""The chats: trees of messages, each change of which is saved before its method returns."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

from edgellm.errors import EdgeLLMError
from tui.core.store import validation
from tui.core.store.messages import insert_chat, insert_row, replace_row, select_rows
from tui.core.store.preferences import Preferences, decoded
from tui.core.store.records import ChatRow, Files, SavedChat
from tui.core.store.search import catch_up, find, forget, forget_message
from tui.core.tree import Message, Tree

_KEPT_DAYS = 30
_TEXTS = ("title", "system", "model", "draft", "path", "files")


class Store(Preferences):
    """All that the chat keeps, in one SQLite file. Its methods raise EdgeLLMError, in one line, if the file fails them.

    Threads and programs may use it at once: each method is one transaction of a few milliseconds. A deleted chat is
    hidden, and gone for good when the store is opened 30 days later.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.purge(_KEPT_DAYS)

    def chats(self, search: str = "") -> list[ChatRow]:
        """The chats that have all the words in their title or messages, or all chats; the one used last first."""
        if search.strip():
            with self._change() as run:
                catch_up(run)
        with self._look() as run:
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
        """Begin a chat; its id."""
        return self.put(SavedChat(0, title, system, model, path=path))

    def put(self, chat: SavedChat) -> int:
        """Store a chat from elsewhere, all of it or nothing; its new id. Its messages get new ids, too."""
        return self.put_all([chat])[0]

    def put_all(self, chats: Iterable[SavedChat]) -> list[int]:
        """Store chats from elsewhere, all of them or none; their new ids."""
        with self._change() as run:
            new = [insert_chat(run, chat) for chat in chats]
            catch_up(run)
            return new

    def load(self, chat: int) -> SavedChat:
        """A chat with all its messages; deleted ones, too."""
        with self._look() as run:
            texts = ", ".join(f"CAST({name} AS TEXT)" for name in _TEXTS)
            found = run(f"SELECT {texts}, leaf FROM chats WHERE id = ?", chat).fetchone()
            if not found:
                raise self._gone()
            title, system, model, draft, path, files, leaf = found
            messages, attached = validation.messages(select_rows(run, chat)), validation.files(decoded(files))
        if messages and leaf not in {message.id for message in messages}:
            leaf = messages[-1].id  # the program was killed before it showed its first message
        return SavedChat(chat, title, system, model, Tree(messages, leaf), draft, path, attached)

    def add(self, chat: int, parent: int | None, role: str, text: str, model: str | None = None) -> Message:
        """A new message after `parent`. A reply begins empty and grows by `update`."""
        message = Message(0, parent, role, text, time(), model)
        with self._change() as run:
            catch_up(run)
            run("UPDATE chats SET updated = ?, deleted = NULL WHERE id = ?", message.created, chat)
            return replace(message, id=insert_row(run, chat, message))

    def newest(self, chat: int) -> int:
        """The id of the last message that was added to a chat, in whichever version; 0 if there is none."""
        with self._look() as run:
            return int(run("SELECT max(id) FROM messages WHERE chat = ?", chat).fetchone()[0] or 0)

    def update(self, message: Message) -> None:
        """Save a message as it is now; from any thread."""
        with self._change() as run:
            if not replace_row(run, message):
                raise self._gone()

    def withdraw(self, message: int, instead: int) -> None:
        """Remove a version for good, and show another one. One that something follows, from elsewhere, stays."""
        with self._change() as run:
            found = run("SELECT chat FROM messages WHERE id = ?", message).fetchone()
            chat = found[0] if found else 0
            if chat and not run("SELECT 1 FROM messages WHERE chat = ? AND parent = ?", chat, message).fetchone():
                run("UPDATE chats SET leaf = ? WHERE id = ? AND leaf = ?", instead, chat, message)
                run("DELETE FROM messages WHERE id = ?", message)
                forget_message(run, chat, message)

    def show(self, chat: int, leaf: int | None) -> None:
        """Remember the last message that is shown."""
        self._set(chat, leaf=leaf)

    def rename(self, chat: int, title: str) -> None:
        """Give a chat another title."""
        self._set(chat, title=title)

    def set_system(self, chat: int, text: str | None) -> None:
        """Pin a system prompt to a chat, or none."""
        self._set(chat, system=text)

    def set_model(self, chat: int, model: str | None, path: str | None = None) -> None:
        """Remember the model that a chat goes on with: what it is called, and where it is."""
        self._set(chat, model=model, path=path)

    def set_draft(self, chat: int, text: str) -> None:
        """Keep what is typed in a chat and not sent."""
        self._set(chat, draft=text)

    def set_files(self, chat: int, files: Files) -> None:
        """Keep the files that go with what is typed in a chat."""
        self._set(chat, files=json.dumps(files))

    def delete(self, chat: int) -> None:
        """Hide a chat; `undelete` brings it back."""
        self._set(chat, deleted=time())

    def undelete(self, chat: int) -> None:
        """Bring a deleted chat back."""
        self._set(chat, deleted=None)

    def purge(self, days: float = 0) -> None:
        """Remove for good what was deleted so many days ago."""
        with self._change() as run:
            for (chat,) in run("SELECT id FROM chats WHERE deleted <= ?", time() - 86400 * days).fetchall():
                forget(run, chat)
                run("DELETE FROM chats WHERE id = ?", chat)

    def _set(self, chat: int, **values: Any) -> None:
        columns = ", ".join(f"{name} = ?" for name in values)
        with self._change() as run:
            if not run(f"UPDATE chats SET {columns} WHERE id = ?", *values.values(), chat).rowcount:
                raise self._gone()

    def _gone(self) -> EdgeLLMError:
        return EdgeLLMError("there is no such chat, or no longer; open another one of the list")
