"""Keys, as the widgets declare them."""

from textual.binding import Binding


def bind(
    id: str, keys: str, action: str, name: str, meaning: str, *, show: bool = True, priority: bool = False
) -> Binding:
    """A binding with all that is told of it: `name` below the conversation if it is to `show`, `meaning` in the help.

    `keys` are those that it begins with, commas between them; a person gives it others by its `id`.
    """
    return Binding(keys, action, name, show, priority=priority, tooltip=meaning, id=id)


LEAVE = Binding("ctrl+q", "app.quit", show=False)
"""For each screen over the conversation, where keys of the program do nothing without a priority; with one, this key
would overtake what was typed just before."""
