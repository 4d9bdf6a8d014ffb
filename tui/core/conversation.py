"""The conversation that is open: what is said, the versions of it, and the replies that are being written."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from edgellm.errors import EdgeLLMError
from tui.core.backend import Backend
from tui.core.drafts import Drafts, SavedDraft
from tui.core.events import ChatsChanged, Event, ModelOpened, Notice, PathChanged, ReplyEnded
from tui.core.model_settings import ModelSettings
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.store import Files, SavedChat, Store
from tui.core.titles import cut
from tui.core.tree import Message
from tui.core.worker import ReplyRequest, Worker

_TITLE = 48


class Conversation:
    """One chat at a time, the worker that replies in it, and what replies are asked for with."""

    def __init__(
        self, store: Store, backend: Backend, tell: Callable[[Event], None], given: RunOptions = NO_RUN_OPTIONS
    ) -> None:
        self.store, self._tell, self.given = store, tell, given
        self.worker = Worker(backend, tell)
        self.tuning, self.drafts = ModelSettings(store, given), Drafts(store)
        self.model: str | None = None  # what it is called; until it is open, what was asked for
        self.place: str | None = None  # what opens it again, from any folder
        self.opened: ModelOpened | None = None
        self.chat = self._new()
        self._pending: dict[int, Message] = {}
        self._stopped: set[int] = set()
        self._continued: dict[int, int] = {}  # from which reply one that is pending goes on
        self.problems: dict[int, str] = {}

    def _new(self) -> SavedChat:
        return SavedChat(0, system=self.given.system or None)

    @property
    def path(self) -> list[Message]:
        """The messages that are shown."""
        return self.chat.tree.path()

    @property
    def running(self) -> int | None:
        """The reply on the path that is being written, or waits to be."""
        return next(self._awaited(), None)

    @property
    def busy(self) -> bool:
        """Whether a message has to wait: a reply on the path goes on, as nobody has stopped it."""
        return any(reply not in self._stopped for reply in self._awaited())

    def _awaited(self) -> Iterator[int]:
        """The replies on the path that are being written here, or wait to be."""
        path = self.path if self._pending else ()
        return (m.id for m in path if m.id in self._pending and m.finish_reason is None)

    def awaited(self, message: int) -> bool:
        """Whether a message is a reply that is being written here, or waits to be."""
        reply = self._pending.get(message)
        return reply is not None and reply.finish_reason is None

    def send(self, text: str) -> None:
        """Say something after what is shown; the reply follows, as soon as there is a model."""
        if self.busy:
            waits = self.running in self.worker.waiting
            raise EdgeLLMError(f"a reply {'waits for the model' if waits else 'is being written'}: Esc stops it")
        self._check_model()
        self.stop()
        self.take_written()
        self._begun(text)
        self._keep(self._take_others)
        self._ask(self.chat.tree.leaf, text)

    def _take_others(self) -> None:
        """Have what another program said in this chat meanwhile as other versions."""
        known = self.chat.tree.messages
        if self.store.newest(self.chat.id) > max(known, default=0):
            for message in self.store.load(self.chat.id).tree.messages.values():
                if message.id not in known:
                    self.chat.tree.put(message)
            self._tell(Notice("what was said in this chat elsewhere is here, too: as other versions"))

    def edit(self, message: int, text: str) -> None:
        """Say something else in place of an earlier message; that one stays, as another version."""
        if not (edited := self.chat.tree.messages.get(message)):
            raise EdgeLLMError("the message that was edited is in another chat: open that one to edit it")
        self._check_model()
        self.stop()
        self._ask(edited.parent, text)

    def say_instead(self, message: int, text: str) -> None:
        """Have another text in place of a message: one of the person's is replied to, a reply gone on with."""
        edited = self.chat.tree.messages.get(message)
        if edited and edited.role == "assistant":
            self.go_on(message, text)
        else:
            self.edit(message, text)

    def regenerate(self, message: int | None = None) -> None:
        """Another reply in place of `message`, or of the last one; that one stays, as another version."""
        self._check_model()
        self.stop()
        path = self.chat.tree.path(message)
        while path and path[-1].role == "assistant":
            path.pop()
        if not path:
            raise EdgeLLMError("there is no message yet to reply to")
        self._reply(path[-1].id)

    def go_on(self, message: int | None = None, text: str | None = None) -> None:
        """Let the model go on from the end of a reply, or of the last one, or of another `text` in its place.

        The reply stays, as another version. It is the only one where nothing new comes.
        """
        reply = self.reply_to_edit(message)
        self._check_model()
        self.stop()
        assert reply.parent is not None
        begun = self.chat.tree.messages[reply.id].text
        new = self._reply(reply.parent, begun if text is None else text)
        if begun and text in (None, begun):
            self._continued[new] = reply.id

    def reply_to_edit(self, message: int | None = None) -> Message:
        """A reply of this chat, or its last one. Raises EdgeLLMError if there is none."""
        self.take_written()
        found = self.chat.tree.messages.get(message) if message else self.path[-1] if self.path else None
        if not found or found.role != "assistant" or found.parent is None:
            raise EdgeLLMError("there is no reply to go on with")
        return found

    def stop(self) -> None:
        """End the reply that is being written; what has come stays.

        One that still waits is ended here, as the worker, which loads the model, has no time for it yet.
        """
        for reply in list(self._pending.values()):
            self._stopped.add(reply.id)
            self.worker.stop(reply.id)
            if reply.id in self.worker.waiting and reply.finish_reason is None:
                self._pending[reply.id] = stopped = replace(reply, finish_reason="cancelled")
                self._save(stopped)
                if reply.id in self.chat.tree.messages:
                    self.chat.tree.put(stopped)
                    self._tell(PathChanged())

    def take_written(self) -> None:
        """Take what has come so far of a reply into the conversation; its end may not have been heard yet."""
        for reply in self._pending.values():
            if reply.id in self.chat.tree.messages and (written := self.worker.written(reply.id)):
                self.chat.tree.put(
                    self._ended(written) if isinstance(written, ReplyEnded) else replace(reply, text=written.text)
                )

    def walk(self, message: int | None, step: int) -> None:
        """Show an earlier or later version of a message, or of the last one that has several."""
        tree = self.chat.tree
        several = [m.id for m in self.path if len(tree.versions(m.id)) > 1]
        if message is None and not several:
            raise EdgeLLMError("nothing here has another version; /edit and /regen make one")
        tree.walk(several[-1] if message is None else message, step)
        self._show_leaf()

    def _check_model(self) -> None:
        if self.worker.empty:
            raise EdgeLLMError("no model is open: choose one with /model")

    def _ask(self, parent: int | None, text: str) -> None:
        asked = self.store.add(self.chat.id, parent, "user", text)
        self._keep(lambda: self.store.remember(text))
        self.chat.tree.put(asked)
        self._reply(asked.id)

    def _reply(self, to: int, begun: str = "") -> int:
        self._keep(self._note_own_model)
        reply = self.store.add(self.chat.id, to, "assistant", begun, self.model)
        self._pending[reply.id] = reply
        self.chat.tree.put(reply)
        self.chat.tree.show(reply.id)
        self._show_leaf()
        self.worker.reply(
            ReplyRequest(reply.id, self.messages(to), self.tuning.for_replies(), begun, self._save_text, self._save_end)
        )
        self._tell(ChatsChanged())
        return reply.id

    def _note_own_model(self) -> None:
        """A chat's own model is the one that has replied in it last."""
        if self.chat.id and self.place and self.chat.path != self.place:
            self.store.set_model(self.chat.id, self.model, self.place)
            self.chat = replace(self.chat, model=self.model, path=self.place)

    # These are called in threads of the worker: what is written is saved however busy the screen is, or gone.

    def _save_text(self, message: int, text: str) -> None:
        self._save(replace(self._pending[message], text=text))

    def _save_end(self, event: ReplyEnded) -> None:
        self._save(self._ended(event))

    def _ended(self, event: ReplyEnded) -> Message:
        return replace(
            self._pending[event.message],
            text=event.text,
            finish_reason=event.finish_reason,
            stats=event.stats,
            dropped_tokens=event.dropped_tokens,
            dropped_messages=event.dropped_messages,
        )

    def _save(self, message: Message) -> None:
        self._keep(lambda: self.store.update(message))

    def _keep(self, save: Callable[[], None]) -> None:
        """Keep something; where that fails, say so, but go on, and lose nothing of what is shown."""
        try:
            save()
        except EdgeLLMError as error:
            self._tell(Notice(f"not saved: {error}", "error"))

    def messages(self, to: int | None = None) -> list[dict[str, str]]:
        """The conversation as the model gets it, up to the message `to` or to the end of what is shown."""
        said = [{"role": "system", "content": self.chat.system}] if self.chat.system else []
        return said + [{"role": message.role, "content": message.text} for message in self._turns(to)]

    def _turns(self, to: int | None) -> list[Message]:
        """The messages to one, but for those that got no reply at all: templates want turns that alternate."""
        turns: list[Message] = []
        for message in self.chat.tree.path(to):
            if message.role != "assistant" or message.text:
                turns.append(message)
            elif turns and turns[-1].role == "user":
                turns.pop()
        return turns

    def says_more(self, reply: int, text: str) -> bool:
        """Whether the text of a reply that is being written says more than the one that it goes on from."""
        return reply not in self._continued or text.rstrip() != self._pending[reply].text.rstrip()

    def _note_end(self, event: ReplyEnded) -> None:
        ended, more = self._ended(event), self.says_more(event.message, event.text)
        original = self._continued.pop(ended.id, 0)
        del self._pending[ended.id]
        self._stopped.discard(ended.id)
        if not more and ended.finish_reason != "error":
            self._withdraw(ended, original)
        elif event.problem:
            self.problems[ended.id] = event.problem
        if ended.id in self.chat.tree.messages:
            self.chat.tree.put(ended)
        if event.problem:
            self._tell(Notice(event.problem, "error"))
        self._tell(PathChanged())

    def _withdraw(self, ended: Message, original: int) -> None:
        """Go back to the reply that one has added nothing to."""
        if ended.id not in self.chat.tree.messages or self.chat.tree.withdraw(ended.id, original):
            self._keep(lambda: self.store.withdraw(ended.id, original))
        if ended.finish_reason in ("eog", "stop"):
            self._tell(Notice("the reply is complete: the model adds nothing to it"))

    def prefer(self, name: str, value: object) -> None:
        """Keep a choice of the person's."""
        self._keep(lambda: self.store.set_preference(name, value))

    def draft(self) -> SavedDraft:
        """What was typed in this chat and not sent."""
        kept: list[SavedDraft] = []
        self._keep(lambda: kept.append(self.drafts.read(self.chat)))
        return kept[0] if kept else SavedDraft()

    def save_draft(self, text: str, files: Files = ()) -> None:
        """Keep what is typed and not yet sent, with the files that go with it."""
        self.drafts.save(SavedDraft(text, files))

    def _retitle(self, title: str) -> None:
        self.store.rename(self.chat.id, title)
        self.chat = replace(self.chat, title=title)
        self._tell(ChatsChanged())

    def _begun(self, title: str = "") -> None:
        """Store the chat if it is a new one."""
        line = cut(" ".join(title.split()), _TITLE)
        if not self.chat.id:
            self.chat = self.store.load(self.store.new_chat(line, self.chat.system, self.model, self.place))
            self._keep(self.drafts.forget_sent)
            self.drafts.enter(self.chat.id)
        elif line and not self.chat.title:
            self._keep(lambda: self._retitle(line))

    def _show_leaf(self) -> None:
        self._keep(lambda: self.store.show(self.chat.id, self.chat.tree.leaf))
        self._tell(PathChanged())
