"""How many drafts a reply had, by what proposed them, and how many of them were accepted."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftStats:
    """Tokens of one source that steps computed, those of them that are in the reply, and seconds spent to draft them.

    The seconds are those of the drafter alone: 0 for prompt lookup and forced text.
    """

    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0


class DraftTally:
    """Counts the drafts of one reply. `by_source` is replaced with each change, so that other threads may keep it.

    `bytes_read` are those of weights that were read to draft.
    """

    def __init__(self) -> None:
        self.by_source: Mapping[str, DraftStats] = {}
        self.bytes_read = 0

    @property
    def accepted(self) -> int:
        """The accepted drafts of all sources."""
        return sum(each.accepted for each in self.by_source.values())

    def draft(self, source: str, tokens: int, seconds: float = 0.0, bytes_read: int = 0) -> None:
        """Count the drafts of a step, and the time and the bytes that drafting took, also without a draft."""
        self.bytes_read += bytes_read
        if tokens or seconds:
            self._add(source, DraftStats(tokens, 0, seconds))

    def accept(self, source: str) -> None:
        """Count an accepted draft."""
        self._add(source, DraftStats(0, 1))

    def _add(self, source: str, more: DraftStats) -> None:
        found = self.by_source.get(source, DraftStats())
        drafted, accepted = found.drafted + more.drafted, found.accepted + more.accepted
        self.by_source = {**self.by_source, source: DraftStats(drafted, accepted, found.seconds + more.seconds)}
