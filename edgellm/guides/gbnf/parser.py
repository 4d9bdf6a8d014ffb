"""The rules of a GBNF grammar as syntax trees."""

import re
from collections.abc import Mapping
from typing import NoReturn

from edgellm.errors import GuideError
from edgellm.fmt import printable
from edgellm.guides.patterns.charset import ANY_CHAR, CharSet
from edgellm.guides.patterns.nodes import Alternation, Chars, Concatenation, Name, Node, Repeat

Rules = Mapping[str, Node]

ROOT = "root"
"""The name of the rule for the whole text."""

_SPACE = re.compile(r"(?:[ \t]|#[^\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:\s|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_REPEAT = re.compile(r"[*+?]|\{\s*(\d{1,6})\s*(,\s*(\d{1,6})?\s*)?\}")
_TIMES = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


def parse(text: str) -> Rules:
    """The rules by name. Raises GuideError, with the line, for a grammar that is not valid."""
    return _GBNFParser(text).rules()


class _GBNFParser:
    """A parser by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._used: dict[str, int] = {}  # the lines in which rules are named

    def rules(self) -> Rules:
        rules = dict[str, Node]()
        self._skip(_SPACE_AND_LINES)
        while self._at < len(self._text):
            name = self._name()
            self._skip(_SPACE)
            if not self._take("::="):
                self._fail("has no ::= behind the name of a rule")
            self._skip(_SPACE_AND_LINES)
            rules[name] = self._choice(nested=False)
            if self._peek() not in ("", "\n", "\r"):
                self._fail(f"has {printable(self._peek())!r}, which begins nothing")
            self._skip(_SPACE_AND_LINES)
        for name, line in {ROOT: self._line(), **self._used}.items():
            if name not in rules:
                self._fail(f"needs a rule {name}, which there is not", line)
        return rules

    def _fail(self, problem: str, line: int | None = None) -> NoReturn:
        raise GuideError(f"option grammar: line {line or self._line()} {problem}")

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _peek(self, n: int = 0) -> str:
        return self._text[self._at + n : self._at + n + 1]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if found := pattern.match(self._text, self._at):
            self._at = found.end()

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        if not found:
            self._fail("has no name of a rule where one must be")
        self._at = found.end()
        return found[0]

    def _choice(self, nested: bool) -> Node:
        alternatives = [self._sequence(nested)]
        while self._take("|"):
            self._skip(_SPACE_AND_LINES)
            alternatives.append(self._sequence(nested))
        return alternatives[0] if len(alternatives) == 1 else Alternation(tuple(alternatives))

    def _sequence(self, nested: bool) -> Node:
        space = _SPACE_AND_LINES if nested else _SPACE
        items = list[Node]()
        while (item := self._item()) is not None:
            self._skip(space)
            while found := _REPEAT.match(self._text, self._at):
                self._at = found.end()
                item = Repeat(item, *self._times(found))
                self._skip(space)
            items.append(item)
        return items[0] if len(items) == 1 else Concatenation(tuple(items))

    def _times(self, found: re.Match[str]) -> tuple[int, int | None]:
        if found[0] in _TIMES:
            return _TIMES[found[0]]
        least, most = int(found[1]), int(found[3]) if found[3] else None if found[2] else int(found[1])
        if most is not None and most < least:
            self._fail("repeats from more to less")
        return least, most

    def _item(self) -> Node | None:
        """A text, a class, a group or the name of a rule; None if there is none."""
        if self._take('"'):
            return self._literal()
        if self._take("["):
            return self._class()
        if self._take("."):
            return Chars(ANY_CHAR)
        if self._take("("):
            self._skip(_SPACE_AND_LINES)
            inside = self._choice(nested=True)
            if not self._take(")"):
                self._fail("has a ( without a )")
            return inside
        if not _NAME.match(self._text, self._at):
            return None
        line, name = self._line(), self._name()
        self._used.setdefault(name, line)
        return Name(name)

    def _literal(self) -> Node:
        letters = list[Node]()
        while not self._take('"'):
            code = self._character()
            letters.append(Chars(CharSet.of((code, code))))
        return letters[0] if len(letters) == 1 else Concatenation(tuple(letters))

    def _class(self) -> Node:
        negated, chars = self._take("^"), CharSet(())
        while not self._take("]"):
            low = high = self._character()
            if self._peek() == "-" and self._peek(1) not in ("]", ""):
                self._at += 1
                high = self._character()
            if high < low:
                self._fail("has a range of characters from a higher to a lower one")
            chars |= CharSet.of((low, high)) & ANY_CHAR
        return Chars(chars.complement() if negated else chars)

    def _character(self) -> int:
        letter = self._peek()
        if letter in ("", "\n"):
            self._fail("ends inside of a text or class")
        self._at += 1
        if letter != "\\":
            return ord(letter)
        kind = self._peek()
        self._at += len(kind)
        if kind not in _HEX_DIGITS:
            return ord(_ESCAPES.get(kind, kind or "\\"))
        digits = self._text[self._at : self._at + _HEX_DIGITS[kind]]
        self._at += len(digits)
        if not re.fullmatch(f"[0-9A-Fa-f]{{{_HEX_DIGITS[kind]}}}", digits) or int(digits, 16) not in ANY_CHAR:
            self._fail(f"has \\{kind} without the hexadecimal number of a character")
        return int(digits, 16)
