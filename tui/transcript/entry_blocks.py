"""One entry as the pieces that it is shown as."""

from collections.abc import Iterator

from edgellm.fmt import counted
from tui.transcript.blocks import Block, FoldLine, Heading, PlainText, StatsLine
from tui.transcript.entry import TranscriptEntry
from tui.transcript.streamed_markdown import StreamedMarkdown
from tui.transcript.thinking import split

_NAMES = {"user": "You", "assistant": "Reply", "system": "System", "tool": "Tool"}
_LINES = 64  # of a plain text in one piece
_LONG, _HEAD, _TAIL = 40, 12, 8  # lines of what is folded, and of what is seen of it then


class EntryBlocks:
    """An entry, with its pieces once somebody asks for them.

    What the model thought, and the middle of something long that was said to it, is `opened` or folded.
    """

    def __init__(self, entry: TranscriptEntry) -> None:
        self.entry = entry
        self.opened = False
        self.thoughts = range(0)  # which of the pieces are what the model thought
        self._blocks: list[Block] = []
        self._thought, self._answer = StreamedMarkdown(), StreamedMarkdown()
        self._stale = True

    def update(self, entry: TranscriptEntry) -> None:
        """Show an entry that has changed; what is finished of its text is not parsed again."""
        self.entry = entry
        self._stale = True

    def toggle_fold(self) -> None:
        """Open what is folded, or fold it again."""
        self.opened = not self.opened
        self._stale = True

    @property
    def has_folds(self) -> bool:
        """Whether something is folded."""
        return not self.opened and any(isinstance(block, FoldLine) for block in self.blocks)

    @property
    def blocks(self) -> list[Block]:
        """From the heading to the figures."""
        if self._stale:
            self._blocks = list(self._make())
            self._stale = False
        return self._blocks

    def _make(self) -> Iterator[Block]:
        entry = self.entry
        name = entry.title or _NAMES[entry.role]
        yield Heading(name, entry.role, entry.key, entry.version, entry.versions)
        if entry.role == "assistant":
            yield from self._reply(entry)
        else:
            yield from self._said(entry.text.split("\n"))
        if entry.figures:
            yield StatsLine(entry.figures)

    def _said(self, lines: list[str]) -> Iterator[Block]:
        """What was said, as it is; of what is long, such as a file, the beginning and the end until it is opened."""
        if len(lines) > _LONG and not self.opened:
            yield PlainText("\n".join(lines[:_HEAD]))
            yield FoldLine(f"{len(lines) - _HEAD - _TAIL:,} more lines", opened=False)
            yield PlainText("\n".join(lines[-_TAIL:]))
            return
        if len(lines) > _LONG:
            yield FoldLine(f"{len(lines):,} lines", opened=True)
        for at in range(0, len(lines), _LINES):
            yield PlainText("\n".join(lines[at : at + _LINES]))

    def _reply(self, entry: TranscriptEntry) -> Iterator[Block]:
        thought, answer, done = split(entry.text, entry.running)
        self.thoughts = range(0)
        self._answer.update(answer, entry.running)
        if thought is not None:
            words = counted(len(thought.split()), "word")
            yield FoldLine(f"{'thought for' if done else 'thinking:'} {words}", self.opened)
            if self.opened:
                self._thought.update(thought.lstrip("\n"), not done)
                yield from self._thought.blocks
                self.thoughts = range(2, 2 + len(self._thought.blocks))
            if self._answer.blocks:
                yield PlainText("")
        yield from self._answer.blocks
