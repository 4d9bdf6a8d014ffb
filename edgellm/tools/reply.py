"""A whole reply: its thinking as `edgellm.text` reads it, and the calls in it."""

from collections.abc import Mapping

from edgellm.text.thought_reader import ThinkingReader
from edgellm.tools.calls import Event
from edgellm.tools.reader import CallReader
from edgellm.tools.symbols import Mark


class ReplyCalls:
    """Reads the tokens of a reply, as `edgellm.text.reply_format.ReplyReader` does, into events.

    `marks` are the texts of the tokens that go to `mark`, by their ids: those of the call format, and those of
    `thoughts`, the reader of a format with marks around thoughts. A reader of calls in harmony reads its channels.
    """

    def __init__(self, calls: CallReader, marks: Mapping[int, str], thoughts: ThinkingReader | None = None) -> None:
        self._calls, self._thoughts = calls, thoughts
        self._thought_marks = frozenset(thoughts.marks.values() if thoughts else ())
        self.marks = {**(thoughts.marks if thoughts else {}), **marks}

    @property
    def ended(self) -> bool:
        """Whether the reply has its answer, and ends without a token for it."""
        return self._calls.ended

    @property
    def in_call(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._calls.in_call

    def text(self, text: str) -> list[Event]:
        """Read text between marks. Returns what becomes certain of the reply."""
        return self._calls.push(self._thoughts.text(text) if self._thoughts and not self.in_call else text)

    def mark(self, mark: str) -> list[Event]:
        """Read a mark; see `text`. A mark of a call ends a thought: models forget to."""
        if self._thoughts and mark in self._thought_marks and not self.in_call:
            return self._calls.push(self._thoughts.mark(mark))
        closing = self._calls.push(self._thoughts.end_thought()) if self._thoughts and not self.in_call else []
        return [*closing, *self._calls.push(Mark(mark))]

    def flush(self) -> list[Event]:
        """The rest of a reply, as no more comes."""
        rest = self._calls.push(self._thoughts.flush()) if self._thoughts else []
        return [*rest, *self._calls.flush()]
