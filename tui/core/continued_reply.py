"""A reply that goes on from where an earlier one ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgellm.generate.stats import Live, Stats
    from tui.core.backend import ReplyStream


class ContinuedReply:
    """A reply with its beginning, which was there before, and the rest, which is being written."""

    def __init__(self, begun: str, rest: ReplyStream) -> None:
        self._begun, self._rest = begun, rest

    @property
    def text(self) -> str:
        """All of it, as far as it has come."""
        return self._begun + self._rest.text

    @property
    def finish_reason(self) -> str | None:
        """Why the rest ended."""
        return self._rest.finish_reason

    @property
    def stats(self) -> Stats:
        """The figures of the rest; the beginning is a part of its prompt."""
        return self._rest.stats

    @property
    def dropped_tokens(self) -> int:
        """Those that the rest did not see."""
        return self._rest.dropped_tokens

    @property
    def dropped_messages(self) -> int:
        """Those that the rest did not see."""
        return self._rest.dropped_messages

    def live(self) -> Live:
        """What the rest is doing now."""
        return self._rest.live()

    def cancel(self) -> None:
        """End it, from any thread."""
        self._rest.cancel()

    def __iter__(self) -> Iterator[object]:
        """Write the rest."""
        return iter(self._rest)
