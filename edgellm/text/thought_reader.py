"""Reads replies that think between marks of their own as other models write them: in <think> … </think>."""

from collections.abc import Mapping

from edgellm.text.thought import CLOSING, OPENING, Thought

_MAX_NAME = 64
"""Characters of the longest name of a thought; a longer line is what the model thinks."""


class ThoughtReader:
    """Turns a reply into its text, as it comes: the same text however it is split into pieces.

    A thought begins with the mark `opening`, with `is_named` also with a line that names it, and ends with any other
    mark. One without text leaves nothing. `follow` is white space that models write behind a thought.
    """

    ended = False
    """A reply ends with a token of its own."""

    def __init__(
        self, marks: Mapping[int, str], begun: str, opening: str, *, is_named: bool = False, follow: str = ""
    ) -> None:
        """`marks` are the texts of the marks by the ids of their tokens, `begun` is the text of the reply so far."""
        self.marks = marks
        self._opening, self._is_named, self._follow = opening, is_named, follow
        thought, answer = Thought.of(begun)
        self._name: str | None = None  # the line with the name as far as it came; None outside of that line
        self.thinks = self._has_thought = thought is not None and answer is None
        """Whether the reply is inside of a thought."""
        self.answers = bool(answer)
        """Whether the reply has said something of its answer."""
        self._line_ends = ""  # those at the end of a thought, which are none of its text if it ends there
        self._behind = ""  # the rest of `follow`, where a thought has just ended

    def text(self, text: str) -> str:
        """Read text between marks. Returns what becomes certain of the reply."""
        if self._name is not None:
            self._name += text
            name, line_end, rest = self._name.partition("\n")
            if not line_end and len(name) <= _MAX_NAME:
                return ""
            text = rest if len(name) <= _MAX_NAME else self._name
            self._begin()
        if self.thinks:
            return self._think(text)
        while text and self._behind:
            is_there = text.startswith(self._behind[0])
            text, self._behind = (text[1:], self._behind[1:]) if is_there else (text, "")
        self.answers = self.answers or bool(text.strip())
        return text

    def mark(self, mark: str) -> str:
        """Read a mark; see `text`. Marks that are out of place mean nothing."""
        if mark != self._opening:
            return self.end_thought()
        if self._is_named:
            self._name = self._name if self.thinks or self._name is not None else ""
        elif not self.thinks:
            self._begin()
        return ""

    def end_thought(self) -> str:
        """End the thought, if there is one; see `text`."""
        closing = CLOSING if self.thinks and self._has_thought and not self.answers else ""
        self._behind = self._follow if self.thinks else ""
        self._name, self.thinks, self._line_ends = None, False, ""
        return closing

    def flush(self) -> str:
        """The rest of a reply that was cut off."""
        return ""

    def _begin(self) -> None:
        self._name, self.thinks, self._has_thought = None, True, False

    def _think(self, text: str) -> str:
        """Text of a thought, without line ends around it. A thought behind an answer is text of the answer."""
        text = self._line_ends + text
        said = text.rstrip("\n")
        self._line_ends = text[len(said) :]
        if not said or self._has_thought:
            return said
        self._has_thought = True
        return said if self.answers else OPENING + said.lstrip("\n")


class TextMarkReader:
    """Reads a reply whose marks are text, as its vocabulary has no tokens for them.

    They mean something only where a thought may begin, and in it where it may end.
    """

    ended = False
    marks: Mapping[int, str] = {}

    def __init__(self, reader: ThoughtReader, opening: str, closing: str) -> None:
        self._reader, self._opening, self._closing, self._rest = reader, opening, closing, ""

    def text(self, text: str) -> str:
        """See `ThoughtReader`."""
        self._rest += text
        said = ""
        while mark := self._looked_for():
            before, found, behind = self._rest.partition(mark)
            if not found or (before.strip() and mark == self._opening):
                break
            said += self._reader.text(before) + self._reader.mark(mark)
            self._rest = behind
        held = next((n for n in range(len(mark) - 1, 0, -1) if self._rest.endswith(mark[:n])), 0)
        certain, self._rest = self._rest[: len(self._rest) - held], self._rest[len(self._rest) - held :]
        return said + self._reader.text(certain)

    def mark(self, mark: str) -> str:
        """See `ThoughtReader`."""
        return self.flush() + self._reader.mark(mark)

    def end_thought(self) -> str:
        """See `ThoughtReader`."""
        return self.flush() + self._reader.end_thought()

    def flush(self) -> str:
        """See `ThoughtReader`."""
        rest, self._rest = self._rest, ""
        return self._reader.text(rest) + self._reader.flush()

    def _looked_for(self) -> str:
        """The mark that may come next; "" in an answer."""
        if self._reader.thinks:
            return self._closing
        return "" if self._reader.answers else self._opening


ThinkingReader = ThoughtReader | TextMarkReader
"""A reader of thoughts between marks, which a call of a tool may end."""
