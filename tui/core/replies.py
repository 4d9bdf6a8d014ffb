"""The replies that are being written, or that wait for the model."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tui.core.conversation import Conversation
from tui.core.events import Emit, Notice, PathChanged, ReplyEnded
from tui.core.prompt_messages import prompt_messages
from tui.core.reply_request import ReplyRequest
from tui.core.store import Store
from tui.core.store_errors import store_or_notify
from tui.core.tool_runs import ToolRuns
from tui.core.tree import Message
from tui.core.worker import Worker


class Replies:
    """The pending replies of all chats. `errors` has one line for each reply that ended with an error, by its id."""

    def __init__(self, conversation: Conversation, worker: Worker, calls: ToolRuns, store: Store, emit: Emit) -> None:
        self._conversation, self._worker, self._calls = conversation, worker, calls
        self._store, self._emit = store, emit
        self._pending: dict[int, Message] = {}
        self._stopped: set[int] = set()
        self._continued: dict[int, int] = {}  # from a pending reply to the reply whose text it continues
        self.errors: dict[int, str] = {}

    @property
    def running(self) -> int | None:
        """The pending reply of the path that is shown."""
        return next(self._pending_on_path(), None)

    @property
    def busy(self) -> bool:
        """Whether a new message has to wait: a reply on the path is pending and not stopped, or its calls are."""
        return self._calls.is_active or any(reply not in self._stopped for reply in self._pending_on_path())

    @property
    def waits_for_model(self) -> bool:
        """Whether the running reply waits for its turn, or for a model that loads."""
        return self.running in self._worker.waiting

    def _pending_on_path(self) -> Iterator[int]:
        path = self._conversation.path if self._pending else ()
        return (message.id for message in path if self.is_pending(message.id))

    def is_pending(self, message: int) -> bool:
        """Whether a message is a reply that is being written by this program, or waits."""
        reply = self._pending.get(message)
        return reply is not None and reply.finish_reason is None

    def start(self, parent: int, model: str | None, options: Mapping[str, Any], begun: str = "") -> int:
        """Add a reply to the message `parent` and have it written. `begun` is the text to continue. Returns its id."""
        chat = self._conversation.chat
        reply = self._store.add(chat.id, parent, "assistant", begun, model)
        self._pending[reply.id] = reply
        chat.tree.put(reply)
        self._conversation.show(reply.id)
        messages = prompt_messages(chat, parent)
        self._worker.reply(ReplyRequest(reply.id, messages, options, begun, self._save_text, self._save_end))
        return reply.id

    def mark_continuation(self, reply: int, original: int) -> None:
        """Note that a reply repeats the text of `original` and continues it."""
        self._continued[reply] = original

    def adds_text(self, reply: int, text: str) -> bool:
        """Whether the text of a pending reply says more than the reply that it continues."""
        return reply not in self._continued or text.rstrip() != self._pending[reply].text.rstrip()

    def stop(self) -> None:
        """End all pending replies and the calls of tools; the text so far and the results stay.

        A reply that waits is ended here: the worker may be busy loading the model.
        """
        self._calls.stop()
        tree = self._conversation.chat.tree
        for reply in list(self._pending.values()):
            self._stopped.add(reply.id)
            self._worker.stop(reply.id)
            if reply.id in self._worker.waiting and reply.finish_reason is None:
                self._pending[reply.id] = stopped = replace(reply, finish_reason="cancelled")
                self._save(stopped)
                if reply.id in tree.messages:
                    tree.put(stopped)
                    self._emit(PathChanged())

    def collect(self) -> None:
        """Copy the text written so far into the conversation, also of a reply whose ReplyEnded is still to come."""
        tree = self._conversation.chat.tree
        for reply in self._pending.values():
            if reply.id in tree.messages and (written := self._worker.written(reply.id)):
                tree.put(self._ended(written) if isinstance(written, ReplyEnded) else replace(reply, text=written.text))

    def on_ended(self, event: ReplyEnded) -> None:
        """Take the end of a reply into the conversation."""
        tree = self._conversation.chat.tree
        ended, is_stopped = self._ended(event), event.message in self._stopped
        adds_text = self.adds_text(event.message, event.text) or bool(event.tool_calls)
        original = self._continued.pop(ended.id, 0)
        del self._pending[ended.id]
        self._stopped.discard(ended.id)
        if not adds_text and ended.finish_reason != "error":
            self._withdraw(ended, original)
        elif event.problem:
            self.errors[ended.id] = event.problem
        if ended.id in tree.messages:
            tree.put(ended)
        if event.problem:
            self._emit(Notice(event.problem, "error"))
        if ended.finish_reason == "tool_calls" and not is_stopped:
            self._calls.begin(ended)
        self._emit(PathChanged())

    def _withdraw(self, ended: Message, original: int) -> None:
        """Remove a reply that adds nothing to the one that it continues, and show that one."""
        tree = self._conversation.chat.tree
        if ended.id not in tree.messages or tree.withdraw(ended.id, original):
            store_or_notify(self._emit, lambda: self._store.withdraw(ended.id, original))
        if ended.finish_reason in ("eog", "stop"):
            self._emit(Notice("the reply is complete: the model adds nothing to it"))

    def _ended(self, event: ReplyEnded) -> Message:
        return replace(
            self._pending[event.message],
            text=event.text,
            finish_reason=event.finish_reason,
            stats=event.stats,
            dropped_tokens=event.dropped_tokens,
            dropped_messages=event.dropped_messages,
            tool_calls=event.tool_calls,
        )

    # These run in threads of the worker, so that text is saved while the screen is busy or gone.

    def _save_text(self, message: int, text: str) -> None:
        self._save(replace(self._pending[message], text=text))

    def _save_end(self, event: ReplyEnded) -> None:
        self._save(self._ended(event))

    def _save(self, message: Message) -> None:
        store_or_notify(self._emit, lambda: self._store.update(message))
