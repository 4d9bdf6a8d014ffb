"""A reply in two parts, what the model thinks and what it answers, split while it comes."""

from enum import Enum

_OPENING, _CLOSING = "<think>", "</think>"
"""Replies have these, whatever the tags of their model are: `edgellm.text.reply_format` reads others."""


class _Place(Enum):
    """Where the next text of a reply stands."""

    BEFORE = 0
    INSIDE = 1
    ANSWER = 2


class ThoughtSplitter:
    """Splits text as `edgellm.text.thought.Thought` does, however it is cut into pieces.

    `inside`: the reply begins inside of a thought.
    """

    def __init__(self, inside: bool = False) -> None:
        self._place = _Place.INSIDE if inside else _Place.BEFORE
        self._held = ""
        self._line_ends = 1 if inside else 0  # line ends that may follow a tag, and are left out

    @property
    def thinking(self) -> bool:
        """Whether the last text was, or may become, part of a thought."""
        return self._place is _Place.INSIDE

    def push(self, text: str) -> tuple[str, str]:
        """Add text; returns what became certain of the thought, and of the answer."""
        self._held += text
        thought = ""
        if self._place is _Place.BEFORE:
            self._open()
        if self._place is _Place.INSIDE:
            thought = self._think()
        return thought, self._answer() if self._place is _Place.ANSWER else ""

    def flush(self) -> tuple[str, str]:
        """The rest, as no more comes: of the thought, and of the answer."""
        rest, self._held = self._held, ""
        return (rest, "") if self._place is _Place.INSIDE else ("", rest)

    def _open(self) -> None:
        begun = self._held.lstrip()
        if begun.startswith(_OPENING):
            self._place, self._held, self._line_ends = _Place.INSIDE, begun[len(_OPENING) :], 1
        elif not _OPENING.startswith(begun):
            self._place = _Place.ANSWER

    def _think(self) -> str:
        self._skip_line_ends()
        thought, closing, rest = self._held.partition(_CLOSING)
        if closing:
            self._place, self._held, self._line_ends = _Place.ANSWER, rest, 2
            return thought.removesuffix("\n")
        certain = len(self._held) - _overlap(self._held, f"\n{_CLOSING}", _CLOSING)
        thought, self._held = self._held[:certain], self._held[certain:]
        return thought

    def _answer(self) -> str:
        self._skip_line_ends()
        answer, self._held = self._held, ""
        return answer

    def _skip_line_ends(self) -> None:
        while self._line_ends and self._held:
            if not self._held.startswith("\n"):
                self._line_ends = 0
                return
            self._held, self._line_ends = self._held[1:], self._line_ends - 1


def _overlap(text: str, *marks: str) -> int:
    """The length of the longest end of `text` that is a beginning of a mark."""
    longest = max(map(len, marks))
    return next((n for n in range(min(longest, len(text)), 0, -1) if any(m.startswith(text[-n:]) for m in marks)), 0)
