"""The chat without a screen: the object that the screen, `--plain` and the slash commands call."""

from edgellm.errors import EdgeLLMError
from tui.core.backend import Backend
from tui.core.chats import Chats
from tui.core.conversation import Conversation
from tui.core.current_model import CurrentModel
from tui.core.events import (
    CallEnded,
    ConversationCounted,
    Emit,
    Event,
    ModelFailed,
    ModelOpened,
    Notice,
    ReplyEnded,
    ServersOpened,
)
from tui.core.model_names import ModelNames
from tui.core.model_settings import ModelSettings
from tui.core.navigation import Navigation
from tui.core.replies import Replies
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.sender import Sender
from tui.core.session_tools import SessionTools
from tui.core.status import ChatStatus
from tui.core.store import Store
from tui.core.store_errors import store_or_notify
from tui.core.token_count import TokenCount
from tui.core.tool_lists import servers_text
from tui.core.tool_runs import ToolRuns
from tui.core.worker import Worker


class ChatController:
    """Builds the parts of the chat and connects them.

    Call its parts from one thread. `emit` takes their events in that thread, the worker's events in the worker's
    thread, and notices of warnings in any; the frontend passes all of them to `on_event`, in the first thread, before
    it shows them. All methods raise EdgeLLMError, in one line, for what cannot be done.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        emit: Emit,
        run_options: RunOptions = NO_RUN_OPTIONS,
        first_model: str | None = None,
    ) -> None:
        self.store, self.run_options, self._emit, self._first_model = store, run_options, emit, first_model
        self.worker = Worker(backend, emit)
        self.settings = ModelSettings(store, run_options)
        self.tools = SessionTools(emit)
        self.model = CurrentModel(self.worker, self.settings, self.tools, store, emit)
        self.model_names = ModelNames(backend.names)
        self.conversation = Conversation(store, emit, run_options.system)
        self.calls = ToolRuns(self.conversation, self.tools, store, emit, lambda result: self.sender.go_on(result))
        self.replies = Replies(self.conversation, self.worker, self.calls, store, emit)
        self.tokens = TokenCount(self.conversation, self.model, self.worker)
        self.status = ChatStatus(self.conversation, self.tokens, self.model, self.worker)
        self.sender = Sender(self.conversation, self.replies, self.model, self.worker, store, emit)
        self.navigation = Navigation(self.conversation, self.replies, self.tokens)
        self.chats = Chats(store, self.conversation, self.replies, self.model, self.tokens, emit)

    def start(self) -> None:
        """Open `first_model` and send the message of the command line, unless a model was requested already."""
        if self.model.path is None and self._first_model:
            self.model.open(self._first_model)
            if message := self.run_options.message:
                store_or_notify(self._emit, lambda: self.sender.send(message))

    def resume(self, chat: int) -> None:
        """Open the first chat; the system prompt of the command line holds in it for this run."""
        self.chats.open(chat)
        if self.run_options.system is not None:
            self.conversation.set_system(self.run_options.system, stored=False)

    def set_system(self, text: str) -> None:
        """Set the system prompt of the open chat; empty text means none."""
        self.conversation.set_system(text)
        self.tokens.recount()

    def prefer(self, name: str, value: object) -> None:
        """Store a choice of the user under a name."""
        store_or_notify(self._emit, lambda: self.store.preferences.set(name, value))

    def on_event(self, event: Event) -> None:
        """Bring the state up to date with an event of the worker."""
        if isinstance(event, ReplyEnded):
            self.replies.on_ended(event)
            self.tokens.on_reply_ended(event)
        elif isinstance(event, ConversationCounted):
            self.tokens.on_counted(event)
        elif isinstance(event, ModelOpened) and self.model.on_opened(event):
            self.tokens.refresh()
            self.conversation.set_model(event.name, event.path)
        elif isinstance(event, ModelFailed):
            self.model.on_failed(event)
        elif isinstance(event, CallEnded):
            self.calls.on_ended(event)
        elif isinstance(event, ServersOpened):
            self._on_servers(event)

    def _on_servers(self, event: ServersOpened) -> None:
        """Take MCP servers, and say which tools they have, or why they are not open."""
        try:
            wanted, problem = self.tools.on_servers(event), event.problem
        except EdgeLLMError as error:
            wanted, problem = True, str(error)
        if problem and self.tools.servers.names:
            problem += "; the MCP servers before stay open"
        if wanted:
            self._emit(Notice(problem, "error") if problem else Notice(servers_text(self.tools)))
        self.tokens.recount()

    @property
    def works_in_background(self) -> bool:
        """Whether a call runs or MCP servers start: an event follows."""
        return self.calls.is_running or self.tools.servers.is_opening

    def stop(self) -> None:
        """End all replies, calls of tools, and the start of MCP servers."""
        self.replies.stop()
        if self.tools.servers.is_opening:
            self.tools.servers.stop_opening()
            self._emit(Notice("the start of the MCP servers was stopped"))

    def close(self) -> None:
        """End the model and close the store; the text so far of a running reply is saved."""
        self.replies.stop()
        self.calls.close()
        self.tools.servers.close()
        self.worker.close()
        self.conversation.close()
        self.store.close()
