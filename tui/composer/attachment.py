"""Texts that go with a message."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text that goes with what is typed: a file, or a long text that was pasted, which has no name."""

    name: str
    text: str

    @property
    def label(self) -> str:
        """What the chip says: `notes.md, 1,234 lines`."""
        lines = self.text.count("\n") + (not self.text.endswith("\n"))
        return f"{self.name or 'pasted text'}, {lines:,} {'line' if lines == 1 else 'lines'}"


def join(typed: str, attachments: Iterable[Attachment]) -> str:
    """What was typed and, below it, what was pasted."""
    return "\n\n".join(part for part in [typed, *(each.text for each in attachments if not each.name)] if part)
