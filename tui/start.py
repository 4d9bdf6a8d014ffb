"""From the command to a running chat: the store, the log, and the model that is wanted."""

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.system.folders import chats_file, log_file
from tui.core.backend import EdgeBackend
from tui.core.run_options import NO_RUN_OPTIONS, RunOptions
from tui.core.store import Store
from tui.early_input import early_input
from tui.log_output import errors_to_log, output_to_log


def start(model: str | None, plain: bool, resume: bool, given: RunOptions = NO_RUN_OPTIONS) -> None:
    """Run the chat until the person leaves. Raises EdgeLLMError where the stored chats cannot be opened."""
    store = Store(chats_file())
    last = store.chats()[:1] if resume else []
    chat = last[0].id if last else None
    own = store.load(chat) if chat else None
    wanted = model or (own and (own.path or own.model)) or str(store.preference("model", "builtin"))
    if plain:
        from tui.plain.chat import PlainChat

        with errors_to_log(log_file()):
            PlainChat(store, EdgeBackend(), given).run(wanted, chat)
        return
    _show(store, wanted, chat, given)


def _show(store: Store, model: str, chat: int | None, given: RunOptions) -> None:
    """The chat on the whole screen; the terminal is its person's again before the model has ended."""
    with early_input() as typed:
        from tui.app import ChatApp
        from tui.composer.terminal import use_terminal_input

        use_terminal_input(typed)
        app = ChatApp(store, EdgeBackend(), model, chat, given)
    with output_to_log(log_file()):
        try:
            app.run()
        finally:
            app.desk.close()
    app.die_as_asked()
    if app.broken:
        advice = f"`edgellm chat --continue` goes on, and {log_file()} has the details"
        raise EdgeLLMError(f"the screen broke ({printable(app.broken, 200)}), and all that was said is kept: {advice}")
    if app.desk.refused:  # on the screen it was a notice, and that is gone
        raise EdgeLLMError(app.desk.refused)
