"""One entry as the pieces that it is shown as."""

from collections.abc import Iterator

from tui.transcript.document import Document
from tui.transcript.entry import Entry
from tui.transcript.pieces import Figures, Fold, Heading, Piece, Plain
from tui.transcript.thinking import split

_NAMES = {"user": "You", "assistant": "Reply", "system": "System", "notice": "Notice"}
_LINES = 64  # of a plain text in one piece


class Shown:
    """An entry, with its pieces once somebody asks for them. What the model thought is `opened` or folded."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.opened = False
        self.thoughts = range(0)  # which of the pieces are what the model thought
        self._pieces: list[Piece] = []
        self._thought, self._answer = Document(), Document()
        self._stale = True

    def put(self, entry: Entry) -> None:
        """Show an entry that has changed; what is finished of its text is not parsed again."""
        self.entry = entry
        self._stale = True

    def fold(self) -> None:
        """Open the thought, or fold it."""
        self.opened = not self.opened
        self._stale = True

    @property
    def pieces(self) -> list[Piece]:
        """From the heading to the figures."""
        if self._stale:
            self._pieces = list(self._make())
            self._stale = False
        return self._pieces

    def _make(self) -> Iterator[Piece]:
        entry = self.entry
        name = entry.title or _NAMES[entry.role]
        yield Heading(name, entry.role, entry.key, entry.version, entry.versions)
        if entry.role == "assistant":
            yield from self._reply(entry)
        else:
            lines = entry.text.split("\n")
            for at in range(0, len(lines), _LINES):
                yield Plain("\n".join(lines[at : at + _LINES]))
        if entry.figures:
            yield Figures(entry.figures)

    def _reply(self, entry: Entry) -> Iterator[Piece]:
        thought, answer, done = split(entry.text, entry.running)
        self.thoughts = range(0)
        self._answer.update(answer, entry.running)
        if thought is not None:
            yield Fold(len(thought.split()), self.opened, not done)
            if self.opened:
                self._thought.update(thought.lstrip("\n"), not done)
                yield from self._thought.pieces
                self.thoughts = range(2, 2 + len(self._thought.pieces))
            if self._answer.pieces:
                yield Plain("")
        yield from self._answer.pieces
