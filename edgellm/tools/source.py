"""The text of a reply as it comes, read by generators that yield when they need more of it.

What a generator reads depends on the characters alone, not on the pieces in which they come.
"""

import re
from collections.abc import Generator, Sequence
from typing import TypeVar

T = TypeVar("T")
Reading = Generator[None, None, T]
"""Reads from a source and returns its result; yields while the source has too little text."""

CUT_OFF = "the reply ends inside of the call"
"""The problem of a call that has no end."""

INCOMPLETE = "the arguments are not complete"
"""The problem of a call that has its end, but arguments without one."""

_MAX_WORD = 400
_SPACE = re.compile(r"[ \t\r\n]*")


class MalformedError(Exception):
    """A call does not parse. The text is what is wrong, for people."""


class ReplySource:
    """Text that grows by `feed`, until it has `ended`."""

    def __init__(self) -> None:
        self._text, self._at = "", 0
        self.ended = False
        """Whether no more text comes."""
        self._before: list[str] = []  # what was read since `begin`, before `_text`

    def feed(self, text: str) -> None:
        """Append text."""
        self._before.append(self._text[: self._at])
        self._text, self._at = self._text[self._at :] + text, 0

    def begin(self) -> None:
        """Forget what was read."""
        self._before, self._text, self._at = [], self._text[self._at :], 0

    def read(self) -> str:
        """What was read since `begin`."""
        return "".join(self._before) + self._text[: self._at]

    def rest(self) -> str:
        """What came and was not read."""
        return self._text[self._at :]

    def skip(self, n: int) -> str:
        """Read `n` characters that have come."""
        start, self._at = self._at, self._at + n
        return self._text[start : self._at]

    def malformed(self, problem: str) -> Reading[MalformedError]:
        """The error of a call that goes on otherwise than it must: `problem`, or that the reply ends there."""
        at_end = not (yield from self.peek())
        return MalformedError(CUT_OFF if at_end else problem)

    def matched(self, pattern: re.Pattern[str]) -> str:
        """Read what `pattern` matches of the text so far, perhaps nothing."""
        found = pattern.match(self._text, self._at)
        return self.skip(found.end() - self._at) if found else ""

    def peek(self) -> Reading[str]:
        """The next character, which is not read; "" at the end."""
        while self._at == len(self._text) and not self.ended:
            yield
        return self._text[self._at : self._at + 1]

    def next(self) -> Reading[str]:
        """Read a character. Raises MalformedError at the end."""
        if not (yield from self.peek()):
            raise MalformedError(CUT_OFF)
        return self.skip(1)

    def space(self) -> Reading[None]:
        """Read white space."""
        while True:
            self.matched(_SPACE)
            if self._at < len(self._text) or self.ended:
                return
            yield

    def word(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Read characters of a class, perhaps none. Raises MalformedError for more of them than a word has."""
        word = ""
        while True:
            word += self.matched(pattern)
            if len(word) > _MAX_WORD:
                raise MalformedError(f"a number or name has more than {_MAX_WORD} characters")
            if self.rest() or not (yield from self.peek()):
                return word

    def takes(self, *texts: str) -> Reading[str]:
        """Read the one of `texts` that comes next and return it; "" if none does. None may begin with another."""
        while True:
            rest = self._text[self._at : self._at + max(map(len, texts))]
            if found := next((text for text in texts if rest.startswith(text)), ""):
                return self.skip(len(found))
            if self.ended or not any(text.startswith(rest) for text in texts):
                return ""
            yield

    def expect(self, *texts: str, what: str) -> Reading[str]:
        """Read one of `texts`. Raises MalformedError, which says `what` is missing."""
        if not (found := (yield from self.takes(*texts))):
            cut_off = any(text.startswith(self.rest()) for text in texts)
            raise MalformedError(CUT_OFF if cut_off else f"{what} is missing")
        return found

    def until(self, *ends: str) -> Reading[tuple[str, str]]:
        """Read up to the first of `ends`, which is not read; returns the text before it, and which one it is.

        No end may contain another. Raises MalformedError if none comes.
        """
        parts, longest = list[str](), max(map(len, ends))
        while True:
            places = [(at, end) for end in ends if (at := self._text.find(end, self._at)) >= 0]
            if places:
                at, end = min(places)
                parts.append(self.skip(at - self._at))
                return "".join(parts), end
            if self.ended:
                self._at = len(self._text)
                raise MalformedError(CUT_OFF)
            parts.append(self.skip(max(0, len(self._text) - self._at - longest + 1)))
            yield

    def through(self, end: str) -> Reading[str]:
        """Read up to `end`, and that; returns the text before it. Raises MalformedError if it does not come."""
        text, _ = yield from self.until(end)
        self.skip(len(end))
        return text


def first_of(text: str, searched: Sequence[str]) -> tuple[int, str]:
    """Where the first of some texts stands in a text, and which one it is; the end and "" if none does."""
    places = [(at, each) for each in searched if (at := text.find(each)) >= 0]
    return min(places, default=(len(text), ""))


def held_back(text: str, searched: Sequence[str]) -> int:
    """How many characters at the end of a text may begin one of some others."""
    longest = max(map(len, searched), default=1) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((n for n in lengths if any(each.startswith(text[-n:]) for each in searched)), 0)
