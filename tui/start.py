"""From the command to a running chat: opens the store and the log, and chooses the first model."""

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.system.folders import chats_file, log_file
from tui.core.backend import Backend
from tui.core.edge_backend import EdgeBackend
from tui.core.remote_backend import RemoteBackend
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.store import Store
from tui.early_input import early_input
from tui.log_output import errors_to_log, output_to_log


def start(
    model: str | None,
    plain: bool,
    resume: bool,
    run_options: RunOptions = NO_RUN_OPTIONS,
    server: RemoteBackend | None = None,
) -> None:
    """Run the chat until the user leaves. `resume` opens the chat that was used last.

    Without `model`, the model of that chat is opened, or else the one that was opened last, of a `server` its only one.
    Raises EdgeLLMError if the stored chats cannot be opened.
    """
    store = Store(chats_file())
    backend: Backend = server or EdgeBackend()
    last = store.chats()[:1] if resume else []
    chat = last[0].id if last else None
    first_model = model or _own_model(store, backend, chat) or _usual_model(store, backend)
    if plain:
        from tui.plain.chat import PlainChat

        with errors_to_log(log_file()):
            plain_chat = PlainChat(store, backend, run_options)
            with plain_chat.controller.worker.warnings.emitted():
                plain_chat.run(first_model, chat)
    else:
        _run_screen(store, backend, first_model, chat, run_options)


def _own_model(store: Store, backend: Backend, chat: int | None) -> str | None:
    """The model that replied in a chat last, if the backend has it."""
    saved = store.load(chat) if chat else None
    own = saved and (saved.path or saved.model)
    return own if own and backend.owns(own) else None


def _usual_model(store: Store, backend: Backend) -> str:
    return backend.reference("") if backend.server else str(store.preferences.get("model", "builtin"))


def _run_screen(store: Store, backend: Backend, model: str, chat: int | None, run_options: RunOptions) -> None:
    """Run the chat on the whole screen. The terminal is restored before the model is closed."""
    with early_input() as typed:
        from tui.app import ChatApp
        from tui.composer.terminal import use_terminal_input

        use_terminal_input(typed)
        app = ChatApp(store, backend, model, chat, run_options)
    with output_to_log(log_file()), app.controller.worker.warnings.emitted():
        try:
            app.run()
        finally:
            app.controller.close()
    app.reraise_signal()
    if app.crash:
        advice = f"`edgellm chat --continue` goes on, and {log_file()} has the details"
        raise EdgeLLMError(f"the screen broke ({printable(app.crash, 200)}); all messages are saved: {advice}")
    if app.controller.model.error:  # the notice on the screen is gone
        raise EdgeLLMError(app.controller.model.error)
