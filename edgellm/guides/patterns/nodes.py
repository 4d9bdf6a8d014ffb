"""Syntax trees of regular expressions."""

from dataclasses import dataclass

from edgellm.guides.patterns.charset import ANY_CHAR, CharSet


@dataclass(frozen=True)
class Chars:
    """One character of a set."""

    chars: CharSet


@dataclass(frozen=True)
class Concatenation:
    """One item after the other."""

    items: tuple["Node", ...]


@dataclass(frozen=True)
class Alternation:
    """One of several items."""

    items: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    """An item several times; `most` is None for any number."""

    item: "Node"
    least: int
    most: int | None


@dataclass(frozen=True)
class Anchor:
    """`^` or `$`."""

    at_start: bool


@dataclass(frozen=True)
class Name:
    """What a rule of a grammar says."""

    name: str


Node = Chars | Concatenation | Alternation | Repeat | Anchor | Name

EMPTY = Concatenation(())
ANY_TEXT = Repeat(Chars(ANY_CHAR), 0, None)
