"""The one object that a front calls: conversations, the model, settings. What changes it tells as events."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgellm.errors import EdgeLLMError
from tui.core.backend import Backend, OpenModel
from tui.core.events import (
    ChatsChanged,
    Event,
    Inspected,
    ModelFailed,
    ModelOpened,
    Notice,
    PathChanged,
    ReplyEnded,
    SettingsChanged,
)
from tui.core.reading import Reading
from tui.core.settings import Group, Setting
from tui.core.store import Chat, ChatRow, Store
from tui.core.tree import Message
from tui.core.tuning import Tuning
from tui.core.worker import Request, Worker

_TITLE = 48


class Desk:
    """Everything but the screen. Call it from one thread; `tell` gets events from there and from the worker's.

    Events of the worker come back through `heard`, in the thread of the front: it changes what is shown. Methods raise
    EdgeLLMError, in one line, for what cannot be done.
    """

    def __init__(self, store: Store, backend: Backend, tell: Callable[[Event], None]) -> None:
        self.store, self._tell = store, tell
        self.worker = Worker(backend, tell)
        self.model: str | None = None
        self.opened: ModelOpened | None = None
        self.tuning = Tuning(store)
        self.chat = Chat(0)
        self._pending: dict[int, Message] = {}
        self._dropped: dict[int, int] = {}

    # Models and settings

    def open_model(self, name: str) -> None:
        """Open a model in place of the one that is open; the conversation goes on with it."""
        self.stop()
        self.model, self.opened = name, None
        self.tuning.recall(name)
        self.worker.open(name, self.tuning.for_loading())
        self._tell(SettingsChanged())

    def set(self, name: str, text: str) -> None:
        """Set something for this model, and keep it; empty text goes back to the default."""
        if self.keep(name, text).group is Group.LOAD:
            self.reopen()

    def keep(self, name: str, text: str) -> Setting:
        """The same, but settings of loading wait for `reopen`."""
        setting = self.tuning.set(name, text)
        self._tell(SettingsChanged())
        return setting

    def reset(self) -> None:
        """All settings of this model as they come."""
        loads = self.tuning.for_loading()
        self.tuning.reset()
        self._tell(SettingsChanged())
        if loads:
            self.reopen()

    def think(self, thinking: bool | None) -> None:
        """Let the model think before it replies, or not, or (None) as its template does.

        Raises EdgeLLMError if it cannot be switched.
        """
        if not self.opened or not self.opened.thinking:
            raise EdgeLLMError("this model's template has no switch for thinking")
        self.tuning.think(thinking)
        self._tell(SettingsChanged())

    def switch_thinking(self) -> bool:
        """Let the model think before it replies, or not; which it is now. EdgeLLMError if it cannot be switched."""
        self.think(self.tuning.thinking is False)
        return bool(self.tuning.thinking)

    def set_system(self, text: str) -> None:
        """The system prompt of this chat; empty text: none."""
        if self.chat.id:
            self.store.set_system(self.chat.id, text or None)
        self.chat = replace(self.chat, system=text or None)
        self._tell(SettingsChanged())

    def reopen(self) -> None:
        """Open the model anew, with what is set now."""
        if self.model:
            self.open_model(self.model)

    # The conversation

    @property
    def path(self) -> list[Message]:
        """The messages that are shown."""
        return self.chat.tree.path()

    @property
    def running(self) -> int | None:
        """The reply on the path that is being written, or waits to be."""
        return next((m.id for m in self.path if m.id in self._pending), None)

    def send(self, text: str) -> None:
        """Say something after what is shown; the reply follows, as soon as there is a model."""
        if self.running is not None:
            raise EdgeLLMError("a reply is being written: Esc stops it")
        self.stop()
        self._begun(text)
        self._ask(self.chat.tree.leaf, text)

    def edit(self, message: int, text: str) -> None:
        """Say something else in place of an earlier message; that one stays, as another version."""
        self.stop()
        self._ask(self.chat.tree.messages[message].parent, text)

    def regenerate(self, message: int | None = None) -> None:
        """Another reply in place of `message`, or of the last one; that one stays, as another version."""
        self.stop()
        path = self.chat.tree.path(message)
        while path and path[-1].role == "assistant":
            path.pop()
        if not path:
            raise EdgeLLMError("there is no message yet to reply to")
        self._reply(path[-1].id)

    def stop(self) -> None:
        """End the reply that is being written; what has come stays."""
        for reply in self._pending:
            self.worker.stop(reply)

    def walk(self, message: int, step: int) -> None:
        """Show an earlier or later version of a message."""
        self.chat.tree.walk(message, step)
        self._show_leaf()

    def unseen(self) -> frozenset[int]:
        """The messages on the path that the last reply did not see, as they were outside its window."""
        path = self.path
        for place in range(len(path) - 1, -1, -1):
            if path[place].id in self._dropped:
                return frozenset(m.id for m in path[: self._dropped[path[place].id]])
        return frozenset()

    def _ask(self, parent: int | None, text: str) -> None:
        asked = self.store.add(self.chat.id, parent, "user", text)
        self.store.remember(text)
        self.chat.tree.put(asked)
        self._reply(asked.id)

    def _reply(self, to: int) -> None:
        reply = self.store.add(self.chat.id, to, "assistant", "", self.model)
        self._pending[reply.id] = reply
        self.chat.tree.put(reply)
        self.chat.tree.show(reply.id)
        self._show_leaf()
        self.worker.reply(Request(reply.id, self.messages(to), self.tuning.for_replies(), self._saver(reply)))
        self._tell(ChatsChanged())

    def _saver(self, reply: Message) -> Callable[[str], None]:
        return lambda text: self._save(replace(reply, text=text))

    def _save(self, message: Message) -> None:
        """Save a message; where that fails, say so, but lose nothing of what is shown."""
        try:
            self.store.update(message)
        except EdgeLLMError as error:
            self._tell(Notice(f"this reply is not saved: {error}", "error"))

    def messages(self, to: int | None = None) -> list[dict[str, str]]:
        """The conversation as the model gets it, up to the message `to` or to the end of what is shown."""
        system = [{"role": "system", "content": self.chat.system}] if self.chat.system else []
        path = self.chat.tree.path(to)
        return system + [{"role": m.role, "content": m.text} for m in path if m.finish_reason != "error" or m.text]

    def inspect(self) -> None:
        """Look at what the model would get of this conversation; Inspected follows."""
        messages, options = self.messages(), self.tuning.for_replies()
        self.worker.ask(lambda model: Inspected(model.inspect(messages, options)))

    def count(self, text: str) -> None:
        """Count the tokens of a text, or of this conversation if it is empty; a Notice follows."""
        messages = self.messages()

        def counted(model: OpenModel) -> Notice:
            n = model.count_text(text) if text else model.count(messages)
            return Notice(f"{n:,} tokens" if text else f"{n:,} of {model.ctx:,} tokens of context")

        self.worker.ask(counted)

    def heard(self, event: Event) -> None:
        """Take note of what the worker told. The front passes each event on, in its own thread."""
        if isinstance(event, ReplyEnded):
            self._ended(event)
        elif isinstance(event, ModelOpened):
            self.opened, self.model = event, event.name
            self.store.set_preference("model", event.name)
            if self.chat.id:
                self.store.set_model(self.chat.id, event.name)
        elif isinstance(event, ModelFailed):
            self.opened = None
            self._tell(Notice(event.problem, "error"))

    def _ended(self, event: ReplyEnded) -> None:
        ended = replace(
            self._pending.pop(event.message),
            text=event.text,
            finish_reason=event.finish_reason,
            stats=event.stats,
            dropped_tokens=event.dropped_tokens,
        )
        self._save(ended)
        if ended.id in self.chat.tree.messages:
            self.chat.tree.put(ended)
            self._dropped[ended.id] = event.dropped_messages
        if event.problem:
            self._tell(Notice(event.problem, "error"))
        self._tell(PathChanged())

    # Chats

    def chats(self, search: str = "") -> Sequence[ChatRow]:
        """The stored chats, the one used last first."""
        return self.store.chats(search)

    def new_chat(self) -> None:
        """An empty conversation; it is stored when something is said in it."""
        self.stop()
        self.chat = Chat(0)
        self._opened_chat()

    def open_chat(self, chat: int) -> None:
        """Go on with a stored conversation."""
        self.stop()
        self.chat = self.store.load(chat)
        self._opened_chat()

    def fork(self, message: int) -> None:
        """A new chat with everything up to a message; this one stays."""
        self.open_chat(self.store.fork(self.chat.id, message))

    def delete_chat(self, chat: int) -> None:
        """Remove a chat; `undelete_chat` brings it back."""
        self.store.delete(chat)
        if chat == self.chat.id:
            self.new_chat()
        self._tell(ChatsChanged())

    def undelete_chat(self, chat: int) -> None:
        """Bring a removed chat back."""
        self.store.undelete(chat)
        self._tell(ChatsChanged())

    def rename_chat(self, chat: int, title: str) -> None:
        """Give a chat another title."""
        self.store.rename(chat, title)
        if chat == self.chat.id:
            self.chat = replace(self.chat, title=title)
        self._tell(ChatsChanged())

    def save_draft(self, text: str) -> None:
        """Keep what is typed and not yet sent."""
        if self.chat.id:
            self.store.set_draft(self.chat.id, text)
        else:
            self.store.set_preference("draft", text)

    def draft(self) -> str:
        """What was typed in this chat and not sent."""
        return self.chat.draft if self.chat.id else str(self.store.preference("draft", ""))

    def export(self, path: Path) -> None:
        """Write this chat to a file that is not there yet: Markdown, or JSON where the name ends in .json."""
        from tui.core.store.export import to_json, to_markdown

        text = (to_json if path.suffix.lower() == ".json" else to_markdown)(self.chat)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise EdgeLLMError(f"{path}: {error.strerror or error}; give another name to /export") from error

    def import_chat(self, text: str) -> None:
        """Open a chat that was exported as JSON. Raises EdgeLLMError for anything else."""
        from tui.core.store.export import from_json

        self.open_chat(from_json(self.store, text))

    def close(self) -> None:
        """End the model and the store; a reply that is being written is kept as far as it has come."""
        self.stop()
        self.worker.close()
        self.store.close()

    def reading(self) -> Reading:
        """What the model is doing now."""
        return self.worker.reading()

    def _begun(self, title: str = "") -> None:
        """Store the chat if it is a new one."""
        line = " ".join(title.split())[:_TITLE]
        if not self.chat.id:
            self.chat = self.store.load(self.store.new_chat(line, self.chat.system, self.model))
        elif line and not self.chat.title:
            self.rename_chat(self.chat.id, line)

    def _show_leaf(self) -> None:
        self.store.show(self.chat.id, self.chat.tree.leaf)
        self._tell(PathChanged())

    def _opened_chat(self) -> None:
        self._dropped.clear()
        self._tell(PathChanged())
        self._tell(ChatsChanged())
        self._tell(SettingsChanged())
