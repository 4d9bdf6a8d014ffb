"""Walking through what was sent."""

from collections.abc import Iterable


class History:
    """What was sent, the oldest first, and at the end what is being typed.

    A text that is changed on the way is kept so until the next one is sent, and what is being typed always.
    """

    def __init__(self, sent: Iterable[str] = ()) -> None:
        self._sent = list(sent)
        self.restart()

    def add(self, text: str) -> None:
        """Add what was sent now; the walk begins again at the end."""
        if [text] != self._sent[-1:]:
            self._sent.append(text)
        self.restart()

    def walk(self, step: int, text: str) -> str | None:
        """Leave `text` where the walk is and go `step` further. None where there is nothing more."""
        if not 0 <= self._at + step < len(self._texts):
            return None
        self._texts[self._at] = text
        self._at += step
        return self._texts[self._at]

    def recalls(self, text: str) -> bool:
        """Whether `text` is one of what was sent, unchanged, and not what is being typed."""
        return self._at < len(self._sent) and self._sent[self._at] == text

    def typed(self, text: str) -> str:
        """What is being typed: what was, where `text` is but recalled."""
        return self._texts[-1] if self.recalls(text) else text

    def restart(self) -> None:
        """Begin the walk at the end again, with nothing typed."""
        self._texts = [*self._sent, ""]
        self._at = len(self._sent)
