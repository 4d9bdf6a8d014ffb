"""From the command to a running chat: the store, the log, and the model that is wanted."""

from edgellm.errors import EdgeLLMError
from edgellm.home import chats_file, log_file
from tui.core.backend import EdgeBackend
from tui.core.store import Store


def start(model: str | None, plain: bool, resume: bool) -> None:
    """Run the chat until the person leaves. Raises EdgeLLMError if the stored chats cannot be opened."""
    store = Store(chats_file())
    wanted = model or str(store.preference("model", "builtin"))
    last = store.chats()[:1] if resume else []
    chat = last[0].id if last else None
    if plain:
        from tui.plain import Plain

        Plain(store, EdgeBackend()).run(wanted, chat)
        return
    from tui.app import ChatApp
    from tui.composer.terminal import use_terminal_input
    from tui.output import logged

    use_terminal_input()
    with logged(log_file()):
        app = ChatApp(store, EdgeBackend(), wanted, chat)
        app.run()
    if app.return_code:  # Textual has written to the log what it was
        advice = "every message is kept: go on with `edgellm chat --continue`"
        raise EdgeLLMError(f"the chat ended over a fault of its own, told in {log_file()}; {advice}")
