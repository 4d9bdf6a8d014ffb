"""The calls of a reply, kept apart from its text as it comes."""

from collections.abc import Mapping, Sequence

from edgellm.tools.calls import BrokenCall, Event, ToolCall
from edgellm.tools.reply import ReplyCalls


class CallCollector:
    """Reads a reply as `edgellm.text.reply_format.ReplyReader` does: the text has no calls, which are in `calls`.

    `broken` are the calls that do not parse.
    """

    def __init__(self, reply: ReplyCalls) -> None:
        self._reply = reply
        self.calls: list[ToolCall] = []
        self.broken: list[BrokenCall] = []

    @property
    def marks(self) -> Mapping[int, str]:
        """The tokens of the format, by their ids."""
        return self._reply.marks

    @property
    def ended(self) -> bool:
        """Whether the reply has its answer, and ends without a token for it."""
        return self._reply.ended

    def text(self, text: str) -> str:
        """Read text between marks. Returns what becomes certain of the text of the reply."""
        return self._said(self._reply.text(text))

    def mark(self, mark: str) -> str:
        """Read a mark; see `text`."""
        return self._said(self._reply.mark(mark))

    def flush(self) -> str:
        """The rest of a reply, as no more comes. A call that is cut off is broken."""
        return self._said(self._reply.flush())

    def _said(self, events: Sequence[Event]) -> str:
        self.calls += (event for event in events if isinstance(event, ToolCall))
        self.broken += (event for event in events if isinstance(event, BrokenCall))
        return "".join(event for event in events if isinstance(event, str))
