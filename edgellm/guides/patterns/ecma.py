"""Regular expressions of JSON Schema: those of ECMA-262, as syntax trees.

A pattern that has something no automaton matches (assertions inside of it, references to groups) is refused. What
ECMA-262 and other dialects read differently is read so that a match is one in both: `\\d` are the ten digits of ASCII,
and `\\D` everything that no dialect calls a digit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edgellm.guides.patterns.charset import ANY_CHAR, DIGITS, LINE_ENDS, NO_CHARS, SPACE, WORD, CharSet, of_categories
from edgellm.guides.patterns.nodes import ANY_TEXT, EMPTY, Alternation, Anchor, Chars, Concatenation, Node, Repeat

MAX_REPEATS = 100_000
_MAX_WAYS = 100


class PatternError(Exception):
    """A pattern that is not valid or not supported: what is wrong with it, and where."""


@dataclass(frozen=True)
class _Class:
    """A set of characters in two readings: those that are in it in every dialect, and in some dialect.

    Each is a function, as most sets are needed in one reading, and Unicode's take time to find.
    """

    narrow: Callable[[], CharSet]
    wide: Callable[[], CharSet]

    def __or__(self, other: "_Class") -> "_Class":
        return _Class(lambda: self.narrow() | other.narrow(), lambda: self.wide() | other.wide())

    def complement(self) -> "_Class":
        return _Class(lambda: self.wide().complement(), lambda: self.narrow().complement())


def _exactly(chars: CharSet) -> _Class:
    return _Class(lambda: chars, lambda: chars)


_NAMED = {
    "d": _Class(lambda: DIGITS, lambda: of_categories(("Nd",))),
    "w": _Class(lambda: WORD, lambda: of_categories(("L", "M", "N", "Pc"))),
    "s": _Class(lambda: SPACE, lambda: SPACE | CharSet.from_text("\u0085\ufeff") | CharSet.of((0x1C, 0x1F))),
}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_HEX_DIGITS = {"x": 2, "u": 4}
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def parse(pattern: str) -> Node:
    """The syntax tree of a pattern. Raises PatternError."""
    parser = _PatternParser(pattern)
    node = parser.choice()
    if parser.at < len(pattern):
        raise parser.error("has a ) without a (")
    return node


class _PatternParser:
    """A parser by recursive descent; `at` is the index of the next character."""

    def __init__(self, text: str) -> None:
        self._text, self.at = text, 0

    def error(self, problem: str, at: int | None = None) -> PatternError:
        """An error at a character, the next one by default."""
        return PatternError(f"{problem} at character {(self.at if at is None else at) + 1}")

    def choice(self) -> Node:
        """Alternatives, up to a `)` or the end."""
        items = [self._sequence()]
        while self._take("|"):
            items.append(self._sequence())
        return items[0] if len(items) == 1 else Alternation(tuple(items))

    def _peek(self, n: int = 1) -> str:
        return self._text[self.at : self.at + n]

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def _next(self) -> str:
        if not (letter := self._peek()):
            raise self.error("ends too early")
        self.at += 1
        return letter

    def _sequence(self) -> Node:
        items = list[Node]()
        while (letter := self._peek()) and letter not in "|)":
            items.append(self._quantified(self._item()))
        return items[0] if len(items) == 1 else Concatenation(tuple(items))

    def _quantified(self, item: Node) -> Node:
        start = self.at
        found = self._quantifier()
        if found is None:
            return item
        self._take("?")  # the lazy form matches the same texts
        if isinstance(item, Anchor) or self._quantifier() is not None:
            raise self.error("repeats what cannot be repeated", start)
        least, most = found
        if most is not None and most < least:
            raise self.error("repeats from more to less", start)
        if max(least, most or 0) > MAX_REPEATS:
            raise self.error(f"repeats more than {MAX_REPEATS:,} times", start)
        return Repeat(item, least, most)

    def _quantifier(self) -> tuple[int, int | None] | None:
        if self._peek() in _QUANTIFIERS and self._peek():
            return _QUANTIFIERS[self._next()]
        inside, brace, _ = self._text[self.at + 1 :].partition("}")
        least, comma, most = inside.partition(",")
        is_range = self._peek() == "{" and brace and all(n.isascii() and n.isdigit() for n in (least, most or "0"))
        if not is_range:
            return None
        if len(least) > 6 or len(most) > 6:
            raise self.error(f"repeats more than {MAX_REPEATS:,} times")
        self.at += len(inside) + 2
        return int(least), int(most) if most else None if comma else int(least)

    def _item(self) -> Node:
        start, letter = self.at, self._next()
        if letter == "(":
            return self._group(start)
        if letter == "[":
            return Chars(self._class(start))
        if letter == ".":
            return Chars(LINE_ENDS.complement())
        if letter in "^$":
            return Anchor(letter == "^")
        if letter in "*+?":
            raise self.error("repeats nothing", start)
        return Chars(self._escape(in_class=False).narrow() if letter == "\\" else CharSet.from_text(letter))

    def _group(self, start: int) -> Node:
        if self._take("?") and not self._take(":"):
            end = self._text.find(">", self.at)
            if not (self._peek() == "<" and self._peek(2) not in ("<=", "<!") and end > 0):
                raise self.error("looks ahead or behind, or sets a flag, which no grammar can,", start)
            self.at = end + 1
        node = self.choice()
        if not self._take(")"):
            raise self.error("has a ( without a )", start)
        return node

    def _class(self, start: int) -> CharSet:
        negated, found = self._take("^"), _exactly(NO_CHARS)
        while not self._take("]"):
            if not self._peek():
                raise self.error("has a [ without a ]", start)
            found |= self._class_range()
        return (found.complement() if negated else found).narrow()

    def _class_range(self) -> _Class:
        start = self.at
        low = self._class_atom()
        if self._peek() != "-" or self._peek(2) in ("-]", "-"):
            return low
        self.at += 1
        high = self._class_atom()
        ends = [each.narrow().ranges for each in (low, high)]
        if not all(len(ranges) == 1 and ranges[0][0] == ranges[0][1] for ranges in ends) or ends[0] > ends[1]:
            raise self.error("has a range of characters from no lower to a higher one", start)
        return _exactly(CharSet.of((ends[0][0][0], ends[1][0][0])))

    def _class_atom(self) -> _Class:
        letter = self._next()
        return self._escape(in_class=True) if letter == "\\" else _exactly(CharSet.from_text(letter))

    def _escape(self, in_class: bool) -> _Class:
        """What follows a backslash."""
        start, letter = self.at - 1, self._next()
        if letter.lower() in _NAMED:
            found = _NAMED[letter.lower()]
            return found if letter.islower() else found.complement()
        if letter in "pP":
            found = _exactly(self._category(start))
            return found if letter == "p" else found.complement()
        if letter in _HEX_DIGITS:
            return _exactly(self._character(self._code(_HEX_DIGITS[letter]), start))
        if letter in _CONTROLS:
            return _exactly(CharSet.from_text(chr(_CONTROLS[letter])))
        if letter == "0" and not self._peek().isdigit():
            return _exactly(CharSet.from_text("\0"))
        if letter == "b" and in_class:
            return _exactly(CharSet.from_text("\b"))
        if letter == "c" and self._peek().isascii() and self._peek().isalpha():
            return _exactly(CharSet.from_text(chr(ord(self._next()) % 32)))
        if letter.isalnum():
            raise self.error(f"has \\{letter}, which no grammar can match,", start)
        return _exactly(CharSet.from_text(letter))

    def _code(self, digits: int) -> int:
        if digits == 4 and self._take("{"):
            number, brace, _ = self._text[self.at :].partition("}")
            self.at += len(number) + 1 if brace else 0
            return self._hex(number if brace else "")
        return self._hex("".join(self._next() for _ in range(digits)))

    def _hex(self, number: str) -> int:
        if not number or len(number) > 8 or not all(digit in "0123456789abcdefABCDEF" for digit in number):
            raise self.error("has a character code that is no hexadecimal number before")
        return int(number, 16)

    def _character(self, code: int, start: int) -> CharSet:
        if 0xD800 <= code < 0xDC00 and self._take("\\u"):
            low = self._code(4)
            code = 0x10000 + (code - 0xD800 << 10) + low - 0xDC00 if 0xDC00 <= low < 0xE000 else -1
        if code not in ANY_CHAR:
            raise self.error("has a code of no character", start)
        return CharSet.from_text(chr(code))

    def _category(self, start: int) -> CharSet:
        name, brace, _ = self._text[self.at + 1 :].partition("}")
        short = name.removeprefix("gc=").removeprefix("General_Category=")
        if self._peek() != "{" or not brace or short not in _CATEGORIES:
            raise self.error("has a class of characters other than a general category, such as \\p{L},", start)
        self.at += len(name) + 2
        return of_categories((short,))


_CATEGORIES = {
    *("L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe"),
    *("Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Co"),
}


def whole(pattern: str) -> Node:
    """A tree without anchors that matches exactly the texts in which `pattern` is found. Raises PatternError."""
    return _whole(parse(pattern), iter(range(_MAX_WAYS)))


def _whole(node: Node, ways: Iterator[int]) -> Node:
    """`ways` gives a number for each alternative between ^ and $ that may be made."""
    if isinstance(node, Alternation):
        return Alternation(tuple(_whole(item, ways) for item in node.items))
    if next(ways, None) is None:
        raise PatternError(f"has more than {_MAX_WAYS} alternatives between ^ and $")
    items = _flat(node)
    for i in (0, -1):
        if items and isinstance(edge := items[i], Alternation) and _has_anchor(edge):
            rest = items[1:] if i == 0 else items[:-1]
            orders = [(each, *rest) if i == 0 else (*rest, each) for each in edge.items]
            return Alternation(tuple(_whole(Concatenation(order), ways) for order in orders))
    before: Node = ANY_TEXT
    after: Node = ANY_TEXT
    while items and items[0] == Anchor(at_start=True):
        before, items = EMPTY, items[1:]
    while items and items[-1] == Anchor(at_start=False):
        after, items = EMPTY, items[:-1]
    if any(map(_has_anchor, items)):
        raise PatternError("has ^ or $ inside")
    return Concatenation((before, *items, after))


def _flat(node: Node) -> tuple[Node, ...]:
    if not isinstance(node, Concatenation):
        return (node,)
    return tuple(inner for item in node.items for inner in _flat(item))


def _has_anchor(node: Node) -> bool:
    if isinstance(node, Repeat):
        return _has_anchor(node.item)
    return isinstance(node, Anchor) or (
        isinstance(node, Concatenation | Alternation) and any(map(_has_anchor, node.items))
    )
