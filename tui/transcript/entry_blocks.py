"""An entry of the transcript as blocks."""

from collections.abc import Iterator

from edgellm.fmt import counted
from tui.transcript.blocks import Block, FoldLine, Heading, PlainText, StatsLine
from tui.transcript.entry import TranscriptEntry
from tui.transcript.streamed_markdown import StreamedMarkdown
from tui.transcript.thinking import split

_NAMES = {"user": "You", "assistant": "Reply", "system": "System", "tool": "Tool"}
_LINES = 64  # lines of plain text in one block
_LONG, _HEAD, _TAIL = 40, 12, 8  # longer texts are folded; lines that stay visible at the beginning and the end


class EntryBlocks:
    """An entry, whose blocks are made on first use.

    The thinking of a reply, the middle of a long user message, and the result of a call is folded unless `opened`.
    """

    def __init__(self, entry: TranscriptEntry) -> None:
        self.entry = entry
        self.opened = False
        self.thoughts = range(0)  # the numbers of the blocks that are thinking
        self._blocks: list[Block] = []
        self._thought, self._answer = StreamedMarkdown(), StreamedMarkdown()
        self._stale = True

    def update(self, entry: TranscriptEntry) -> None:
        """Replace the entry; finished blocks of its text are not parsed again."""
        self.entry = entry
        self._stale = True

    def toggle_fold(self) -> None:
        """Open the folded text, or fold it."""
        self.opened = not self.opened
        self._stale = True

    @property
    def has_folds(self) -> bool:
        """Whether some text is folded."""
        return not self.opened and any(isinstance(block, FoldLine) for block in self.blocks)

    @property
    def blocks(self) -> list[Block]:
        """All blocks, from the heading to the statistics."""
        if self._stale:
            self._blocks = list(self._make())
            self._stale = False
        return self._blocks

    def _make(self) -> Iterator[Block]:
        entry = self.entry
        if entry.role == "tool" and entry.calls:
            yield from self._calls(entry)
            if self.opened:
                yield PlainText("")
                yield from _in_parts(entry.text.split("\n"))
            return
        name = entry.title or _NAMES[entry.role]
        yield Heading(name, entry.role, entry.key, entry.version, entry.versions)
        if entry.role == "assistant":
            yield from self._reply(entry)
        else:
            yield from self._plain(entry.text.split("\n"))
        yield from self._calls(entry)
        if entry.stats:
            yield StatsLine(entry.stats)

    def _plain(self, lines: list[str]) -> Iterator[Block]:
        """A message as written; a long one, such as a file, is folded to its beginning and end unless it is opened."""
        if len(lines) > _LONG and not self.opened:
            yield PlainText("\n".join(lines[:_HEAD]))
            yield FoldLine(f"{len(lines) - _HEAD - _TAIL:,} more lines", opened=False)
            yield PlainText("\n".join(lines[-_TAIL:]))
            return
        if len(lines) > _LONG:
            yield FoldLine(f"{len(lines):,} lines", opened=True)
        yield from _in_parts(lines)

    def _calls(self, entry: TranscriptEntry) -> Iterator[Block]:
        """A line for each call, and below it all of the call if it is opened."""
        for place, (summary, details) in enumerate(entry.calls):
            yield FoldLine(summary, self.opened, gap=not place)
            if self.opened:
                yield PlainText(details)

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


def _in_parts(lines: list[str]) -> Iterator[Block]:
    """Text as written, in blocks of bounded length."""
    for at in range(0, len(lines), _LINES):
        yield PlainText("\n".join(lines[at : at + _LINES]))
