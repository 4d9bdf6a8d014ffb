"""What the store gives."""

from dataclasses import dataclass, field, replace

from tui.core.tree import Tree

Files = tuple[tuple[str, str], ...]
"""Texts that go with a message, each with its name."""


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A chat as a list shows it. `updated` is in seconds since the epoch; `hit` is the message that was found, and
    `snippet` a line of it around that; None and nothing where the words are in the title alone.
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
    """A chat with all its messages. `draft` is what was typed in it and not sent, with `files`: names and texts.

    `model` is what its model is called, `path` where that is; None where nobody knows.
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
        """Another chat, not stored yet, with the messages from the first one to this one."""
        tree = Tree(self.tree.path(message), message)
        return replace(self, id=0, title=f"{self.title} (fork)".strip(), tree=tree, draft="", files=())
