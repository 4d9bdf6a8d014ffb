"""Recalling sent messages."""

from collections.abc import Iterable


class History:
    """The sent messages, the oldest first, and at the end the text being typed.

    A recalled message that is changed keeps the change until the next message is sent. The typed text is always kept.
    """

    def __init__(self, sent: Iterable[str] = ()) -> None:
        self._sent = list(sent)
        self.restart()

    def add(self, text: str) -> None:
        """Add a sent message, and go to the end."""
        if [text] != self._sent[-1:]:
            self._sent.append(text)
        self.restart()

    def walk(self, step: int, text: str) -> str | None:
        """Store `text` at the current position, go `step` further, and return the text there; None at the ends."""
        if not 0 <= self._at + step < len(self._texts):
            return None
        self._texts[self._at] = text
        self._at += step
        return self._texts[self._at]

    def recalls(self, text: str) -> bool:
        """Whether `text` is the recalled message, unchanged, not the typed text."""
        return self._at < len(self._sent) and self._sent[self._at] == text

    def typed(self, text: str) -> str:
        """The typed text: `text`, unless it is only recalled."""
        return self._texts[-1] if self.recalls(text) else text

    def restart(self) -> None:
        """Go to the end, with no typed text."""
        self._texts = [*self._sent, ""]
        self._at = len(self._sent)
