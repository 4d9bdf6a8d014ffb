"""Finite automata of regular parts of a grammar.

Glushkov's construction: a state for each character of the expression, and one for the beginning. Items that repeat a
number of times count as items that repeat any number of times, so an automaton may accept more texts than its part has.
"""

from functools import reduce
from operator import or_
from typing import NamedTuple

from edgellm.errors import GuideError
from edgellm.guides.gbnf.parser import Rules
from edgellm.guides.patterns.charset import CharSet
from edgellm.guides.patterns.nodes import Alternation, Chars, Concatenation, Name, Node, Repeat

START = -1
"""The state at the beginning."""

_MAX_STATES = 5000


class _Part(NamedTuple):
    """The states in which a part of an expression may begin and end, and whether it may be empty."""

    first: frozenset[int]
    last: frozenset[int]
    nullable: bool


_EMPTY = _Part(frozenset(), frozenset(), True)


class Automaton:
    """The automaton of a part that names only rules that do not contain themselves.

    `nullable`: it accepts the empty text. Raises GuideError if it is too large.
    """

    def __init__(self, rules: Rules, node: Node) -> None:
        self._rules = rules
        self._chars: list[CharSet] = []
        self._follow: list[set[int]] = []
        part = self._build(node)
        self._first, self._last, self.nullable = part

    def accepts(self, state: int) -> bool:
        """Whether a text may end in a state."""
        return self.nullable if state == START else state in self._last

    def transitions(self, state: int) -> list[tuple[int, CharSet]]:
        """The states behind a state, and the characters that lead to each."""
        return [(after, self._chars[after]) for after in (self._first if state == START else self._follow[state])]

    def first_chars(self) -> CharSet:
        """The characters with which texts begin."""
        return reduce(or_, (chars for _, chars in self.transitions(START)), CharSet(()))

    def _build(self, node: Node) -> _Part:
        if isinstance(node, Chars):
            return self._character(node.chars)
        if isinstance(node, Name):
            return self._build(self._rules[node.name])
        if isinstance(node, Repeat):
            part = self._build(node.item)
            if node.most is None or node.most > 1:
                self._join(part, part)
            return part._replace(nullable=part.nullable or not node.least)
        assert isinstance(node, Concatenation | Alternation)
        parts = [self._build(item) for item in node.items]
        if isinstance(node, Concatenation):
            return reduce(self._sequence, parts, _EMPTY)
        first, last = (reduce(or_, ends, frozenset[int]()) for ends in zip(*(part[:2] for part in parts), strict=True))
        return _Part(first, last, any(part.nullable for part in parts))

    def _character(self, chars: CharSet) -> _Part:
        state = len(self._chars)
        if state == _MAX_STATES:
            raise GuideError("option grammar has a rule that is too large; make it shorter")
        self._chars.append(chars)
        self._follow.append(set())
        return _Part(frozenset([state]), frozenset([state]), False)

    def _sequence(self, one: _Part, other: _Part) -> _Part:
        self._join(one, other)
        return _Part(
            one.first | other.first if one.nullable else one.first,
            other.last | one.last if other.nullable else other.last,
            one.nullable and other.nullable,
        )

    def _join(self, one: _Part, other: _Part) -> None:
        for state in one.last:
            self._follow[state] |= other.first
