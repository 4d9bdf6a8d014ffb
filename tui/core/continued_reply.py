"""A reply that continues an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgellm.generate.stats import Live, Stats
    from edgellm.tools.calls import BrokenCall, ToolCall
    from tui.core.backend import ReplyStream


class ContinuedReply:
    """A ReplyStream whose text begins with `begun`, which existed before; `rest` writes what follows."""

    def __init__(self, begun: str, rest: ReplyStream) -> None:
        self._begun, self._rest = begun, rest

    @property
    def text(self) -> str:
        """The beginning and the rest written so far."""
        return self._begun + self._rest.text

    @property
    def finish_reason(self) -> str | None:
        """Why the rest ended."""
        return self._rest.finish_reason

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """The calls of the rest."""
        return self._rest.tool_calls

    @property
    def broken_calls(self) -> Sequence[BrokenCall]:
        """The calls of the rest that do not parse."""
        return self._rest.broken_calls

    @property
    def stats(self) -> Stats:
        """The figures of the rest; the beginning counts as part of its prompt."""
        return self._rest.stats

    @property
    def dropped_tokens(self) -> int:
        """The tokens of the conversation that the model did not see."""
        return self._rest.dropped_tokens

    @property
    def dropped_messages(self) -> int:
        """The messages of the conversation that the model did not see."""
        return self._rest.dropped_messages

    def live(self) -> Live:
        """The figures of the rest at this moment."""
        return self._rest.live()

    def cancel(self) -> None:
        """End the reply; from any thread."""
        self._rest.cancel()

    def __iter__(self) -> Iterator[object]:
        """Write the rest."""
        return iter(self._rest)
