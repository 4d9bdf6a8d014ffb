"""From the command to a running chat: the store, the log, and the model that is wanted."""

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.system.folders import chats_file, log_file
from tui.ahead import typed_ahead
from tui.core.backend import EdgeBackend
from tui.core.given import NOTHING, Given
from tui.core.store import Store
from tui.output import logged, recorded


def start(model: str | None, plain: bool, resume: bool, given: Given = NOTHING) -> None:
    """Run the chat until the person leaves. Raises EdgeLLMError where the stored chats cannot be opened."""
    store = Store(chats_file())
    last = store.chats()[:1] if resume else []
    chat = last[0].id if last else None
    own = store.load(chat) if chat else None
    wanted = model or (own and (own.path or own.model)) or str(store.preference("model", "builtin"))
    if plain:
        from tui.plain import Plain

        with recorded(log_file()):
            Plain(store, EdgeBackend(), given).run(wanted, chat)
        return
    _show(store, wanted, chat, given)


def _show(store: Store, model: str, chat: int | None, given: Given) -> None:
    """The chat on the whole screen; the terminal is its person's again before the model has ended."""
    with typed_ahead() as typed:
        from tui.app import ChatApp
        from tui.composer.terminal import use_terminal_input

        use_terminal_input(typed)
        app = ChatApp(store, EdgeBackend(), model, chat, given)
    with logged(log_file()):
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
