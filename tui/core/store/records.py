"""The records that the store returns."""

from dataclasses import dataclass, field, replace

from tui.core.tree import Tree

Files = tuple[tuple[str, str], ...]
"""Names and texts of the files attached to a draft."""


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A chat in a list. `updated` is in seconds since the epoch, `messages` their number.

    After a search, `hit` is the id of a message with the words and `snippet` a line of it. If the title alone has the
    words, they are None and empty.
    """

    id: int
    title: str
    model: str | None
    updated: float
    messages: int
    snippet: str = ""
    hit: int | None = None


@dataclass(frozen=True, slots=True)
class SavedChat:
    """A chat with all its messages. `draft` is the text typed and not sent, with its attached `files`.

    `model` and `path` are the name and the path of the model that replied last, None if they are unknown.
    """

    id: int
    title: str = ""
    system: str | None = None
    model: str | None = None
    tree: Tree = field(default_factory=Tree)
    draft: str = ""
    path: str | None = None
    files: Files = ()

    def up_to(self, message: int) -> "SavedChat":
        """A copy that is not stored, with the messages from the first one to `message`."""
        tree = Tree(self.tree.path(message), message)
        return replace(self, id=0, title=f"{self.title} (fork)".strip(), tree=tree, draft="", files=())
