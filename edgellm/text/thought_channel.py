"""The thinking of Gemma 4 in a reply: a channel before the answer. (https://ai.google.dev/gemma/docs/core)

    <|channel>thought
    Let me see.<channel|>It is noon.

What a caller reads is text as other models write it: the thinking in <think> … </think>. A model that is not to think
may write an empty channel, of which nothing remains.
"""

from collections.abc import Mapping

from edgellm.text.thought import CLOSING, OPENING, Thought

OPEN, CLOSE = "<|channel>", "<channel|>"
CHANNEL_MARKS = (OPEN, CLOSE)
"""The texts of the tokens around a channel."""

_NAME = "thought\n"
_MAX_NAME = 64
"""Characters of the longest name of a channel; a longer line is what the model thinks."""


def has_thought_channel(source: str) -> bool:
    """Whether a chat template knows the channel."""
    return OPEN in source and CLOSE in source


def channel_continuation(begun: str) -> list[tuple[str, bool]]:
    """What follows the prompt of a reply that begins with the text `begun`: texts, and whether each is a mark."""
    thought, answer = Thought.of(begun)
    if thought is None:
        return [(begun, False)]
    parts = [(OPEN + _NAME, True), (thought, False)]
    return parts if answer is None else [*parts, (CLOSE, True), (answer, False)]


class ThoughtChannelReader:
    """Turns a reply with a channel into its text, as it comes: the same text however it is split into pieces."""

    ended = False
    """A reply ends with a token of its own."""

    def __init__(self, marks: Mapping[int, str], begun: str = "") -> None:
        """`marks` are CHANNEL_MARKS by the ids of their tokens, `begun` is the text of the reply so far."""
        self.marks = marks
        thought, answer = Thought.of(begun)
        self._name: str | None = None  # the first line of a channel as far as it came; None outside of that line
        self._thinks = self._has_thought = thought is not None and answer is None
        self._answers = bool(answer)
        self._line_ends = ""  # those at the end of a thought, which are none of its text if it ends there

    def text(self, text: str) -> str:
        """Read text between marks. Returns what becomes certain of the reply."""
        if self._name is not None:
            self._name += text
            name, line_end, rest = self._name.partition("\n")
            if not line_end and len(name) <= _MAX_NAME:
                return ""
            text = rest if len(name) <= _MAX_NAME else self._name
            self._name, self._thinks, self._has_thought = None, True, False
        if self._thinks:
            return self._think(text)
        self._answers = self._answers or bool(text.strip())
        return text

    def mark(self, mark: str) -> str:
        """Read one of CHANNEL_MARKS; see `text`. Marks that are out of place mean nothing."""
        if mark == OPEN:
            self._name = self._name if self._thinks or self._name is not None else ""
            return ""
        closing = CLOSING if self._thinks and self._has_thought and not self._answers else ""
        self._name, self._thinks, self._line_ends = None, False, ""
        return closing

    def flush(self) -> str:
        """The rest of a reply that was cut off."""
        return ""

    def _think(self, text: str) -> str:
        """Text of a thought, without line ends around it. A thought behind an answer is text of the answer."""
        text = self._line_ends + text
        said = text.rstrip("\n")
        self._line_ends = text[len(said) :]
        if not said or self._has_thought:
            return said
        self._has_thought = True
        return said if self._answers else OPENING + said.lstrip("\n")
