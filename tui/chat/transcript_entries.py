"""The entries of the transcript, made from the messages of the conversation."""

from collections.abc import Iterator
from typing import NamedTuple

from tui.chat.call_entries import call_entries
from tui.core.controller import ChatController
from tui.core.display_names import display_name
from tui.core.tree import Message
from tui.instruments.reply_stats import reply_stats_line
from tui.transcript import TranscriptEntry


class _Source(NamedTuple):
    """All that an entry depends on."""

    message: Message
    version: int
    versions: int
    unseen: bool
    running: bool
    pending: bool
    calls: tuple[tuple[str, str], ...]


class TranscriptEntries:
    """Makes the entries of the path that is shown.

    An entry stays the same object until its message changes, so that a long conversation is not rendered again.
    """

    def __init__(self, controller: ChatController) -> None:
        self._controller = controller
        self._made: dict[int, tuple[_Source, TranscriptEntry]] = {}

    def shown(self) -> list[TranscriptEntry]:
        """The entries of the path, the system prompt first."""
        made = {source.message.id: (source, self._entry(source)) for source in self._path()}
        self._made = made
        system = self._controller.conversation.chat.system
        return [*([TranscriptEntry(0, "system", system)] if system else []), *(entry for _, entry in made.values())]

    def _entry(self, source: _Source) -> TranscriptEntry:
        before = self._made.get(source.message.id)
        if before and before[0].message is source.message and before[0][1:] == source[1:]:
            return before[1]
        return _entry(source, self._controller.replies.errors.get(source.message.id, ""))

    def _path(self) -> Iterator[_Source]:
        conversation, replies = self._controller.conversation, self._controller.replies
        unseen, running = self._controller.status.unseen(), replies.running
        calls = call_entries(conversation.path, self._controller.calls)
        for message in conversation.path:
            versions = conversation.chat.tree.versions(message.id)
            version = versions.index(message.id) + 1
            pending = replies.is_pending(message.id)
            shown = calls.get(message.id, ())
            yield _Source(message, version, len(versions), message.id in unseen, message.id == running, pending, shown)


def _entry(source: _Source, error: str) -> TranscriptEntry:
    message = source.message
    return TranscriptEntry(
        key=message.id,
        role=message.role,
        text=message.text,
        stats=error or ("" if source.pending else _figures(message)),
        version=source.version,
        versions=source.versions,
        unseen=source.unseen,
        running=source.running,
        title=display_name(message.model or message.name or ""),
        calls=source.calls,
    )


def _figures(message: Message) -> str:
    if message.role != "assistant":
        return ""
    return reply_stats_line(message.stats or {}, message.finish_reason, message.dropped_tokens)
