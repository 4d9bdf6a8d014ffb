"""Key bindings with all that the help shows of them."""

from textual.binding import Binding


def bind(
    id: str, keys: str, action: str, name: str, meaning: str, *, show: bool = True, priority: bool = False
) -> Binding:
    """A binding with a `name` for the bottom line, if `show`, and a `meaning` for the help.

    `keys` are the default keys, separated by commas; the config file changes them by the `id`.
    """
    return Binding(keys, action, name, show, priority=priority, tooltip=meaning, id=id)


LEAVE = Binding("ctrl+q", "app.quit", show=False)
"""For the screens over the conversation, where the app's own binding does not work. A binding with priority would work
everywhere, but run before keys that were typed earlier."""
