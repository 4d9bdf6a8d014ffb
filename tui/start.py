"""From the command to a running chat: the store, the log, and the model that is wanted."""

from edgellm.home import chats_file
from tui.core.backend import EdgeBackend
from tui.core.store import Store


def start(model: str | None, plain: bool, resume: bool) -> None:
    """Run the chat until the person leaves. Raises EdgeLLMError where the stored chats cannot be opened."""
    store = Store(chats_file())
    wanted = model or str(store.preference("model", "builtin"))
    from tui.app import ChatApp

    ChatApp(store, EdgeBackend(), wanted).run()
