"""Texts attached to a message."""

from collections.abc import Iterable
from dataclasses import dataclass

from edgellm.fmt import counted, printable


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attached text: a file, or a long pasted text, whose name is empty.

    `tokens` is its token count, None until it is known.
    """

    name: str
    text: str
    tokens: int | None = None

    @property
    def label(self) -> str:
        """The text of its chip: `notes.md, 1,234 lines, 9,876 tokens`."""
        lines = self.text.count("\n") + (not self.text.endswith("\n"))
        tokens = "" if self.tokens is None else f", {counted(self.tokens, 'token')}"
        return f"{printable(self.name) or 'pasted text'}, {counted(lines, 'line')}{tokens}"


def paragraphs(*texts: str) -> str:
    """Texts separated by blank lines, without empty ones."""
    return "\n\n".join(text for text in texts if text)


def join(typed: str, attachments: Iterable[Attachment]) -> str:
    """The typed text, and below it the pasted texts."""
    return paragraphs(typed, *(each.text for each in attachments if not each.name))
