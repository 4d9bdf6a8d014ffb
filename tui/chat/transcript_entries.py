"""What the transcript shows of the desk's messages."""

from collections.abc import Iterator
from typing import NamedTuple

from tui.core.controller import ChatController
from tui.core.display_names import display_name
from tui.core.tree import Message
from tui.instruments.reply_stats import reply_stats_line
from tui.transcript import TranscriptEntry


class _Seen(NamedTuple):
    """What an entry is made of."""

    message: Message
    version: int
    versions: int
    unseen: bool
    running: bool
    awaited: bool


class TranscriptEntries:
    """Makes the entries of a desk; each is the same object until it changes, so that a long conversation costs little.

    Of a conversation that is no longer shown nothing is kept.
    """

    def __init__(self, desk: ChatController) -> None:
        self._desk = desk
        self._made: dict[int, tuple[_Seen, TranscriptEntry]] = {}

    def shown(self) -> list[TranscriptEntry]:
        """The path that is shown, the system prompt first."""
        made = {seen.message.id: (seen, self._entry(seen)) for seen in self._path()}
        self._made = made
        system = self._desk.chat.system
        return [*([TranscriptEntry(0, "system", system)] if system else []), *(entry for _, entry in made.values())]

    def _entry(self, seen: _Seen) -> TranscriptEntry:
        before = self._made.get(seen.message.id)
        if before and before[0].message is seen.message and before[0][1:] == seen[1:]:
            return before[1]
        return _entry(seen, self._desk.problems.get(seen.message.id, ""))

    def _path(self) -> Iterator[_Seen]:
        unseen, running = self._desk.unseen(), self._desk.running
        for message in self._desk.path:
            versions = self._desk.chat.tree.versions(message.id)
            at = versions.index(message.id) + 1
            awaited = self._desk.awaited(message.id)
            yield _Seen(message, at, len(versions), message.id in unseen, message.id == running, awaited)


def _entry(seen: _Seen, problem: str) -> TranscriptEntry:
    message = seen.message
    return TranscriptEntry(
        key=message.id,
        role=message.role,
        text=message.text,
        figures=problem or ("" if seen.awaited else _figures(message)),
        version=seen.version,
        versions=seen.versions,
        unseen=seen.unseen,
        running=seen.running,
        title=display_name(message.model or ""),
    )


def _figures(message: Message) -> str:
    if message.role != "assistant":
        return ""
    return reply_stats_line(message.stats or {}, message.finish_reason, message.dropped_tokens)
