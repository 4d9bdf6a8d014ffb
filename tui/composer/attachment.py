"""Texts that go with a message."""

from collections.abc import Iterable
from dataclasses import dataclass

from edgellm.fmt import counted, printable


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text that goes with what is typed: a file, or a long text that was pasted, which has no name.

    `tokens` is how many it has, None until somebody has counted them.
    """

    name: str
    text: str
    tokens: int | None = None

    @property
    def label(self) -> str:
        """What the chip says: `notes.md, 1,234 lines, 9,876 tokens`."""
        lines = self.text.count("\n") + (not self.text.endswith("\n"))
        tokens = "" if self.tokens is None else f", {counted(self.tokens, 'token')}"
        return f"{printable(self.name) or 'pasted text'}, {counted(lines, 'line')}{tokens}"


def paragraphs(*texts: str) -> str:
    """Texts below each other, but for empty ones."""
    return "\n\n".join(text for text in texts if text)


def join(typed: str, attachments: Iterable[Attachment]) -> str:
    """What was typed and, below it, what was pasted."""
    return paragraphs(typed, *(each.text for each in attachments if not each.name))
