"""Which words of a grammar follow each other: the sets FIRST and FOLLOW of parser construction."""

from collections.abc import Callable, Mapping

from edgellm.guides.patterns.nodes import Alternation, Concatenation, Name, Node, Repeat

Units = frozenset[Node]


class Flow:
    """The words that may follow each word.

    `bodies` are the rules that are no words; `is_word` tells whether a part of a body is one, and `is_nullable` whether
    a word may be empty.
    """

    def __init__(
        self, bodies: Mapping[str, Node], is_word: Callable[[Node], bool], is_nullable: Callable[[Node], bool]
    ) -> None:
        self._bodies, self._is_word, self._is_nullable = bodies, is_word, is_nullable
        self._first: dict[str, tuple[bool, Units]] = dict.fromkeys(bodies, (False, frozenset()))
        while (found := {name: self.first(body) for name, body in bodies.items()}) != self._first:
            self._first = found
        self.follow: dict[Node, set[Node]] = {}
        self._behind: dict[str, set[Node]] = {name: set() for name in bodies}
        size = -1
        while size != (size := self._size()):
            for name, body in bodies.items():
                self._walk(body, frozenset(self._behind[name]))

    def first(self, node: Node) -> tuple[bool, Units]:
        """Whether a part may be empty, and the words with which it begins."""
        if self._is_word(node):
            return self._is_nullable(node), frozenset([node])
        if isinstance(node, Name):
            return self._first[node.name]
        if isinstance(node, Repeat):
            nullable, words = self.first(node.item)
            return nullable or not node.least, words
        if isinstance(node, Concatenation):
            found = frozenset[Node]()
            for item in node.items:
                nullable, words = self.first(item)
                found |= words
                if not nullable:
                    return False, found
            return True, found
        assert isinstance(node, Alternation), "a character is a word"
        parts = [self.first(item) for item in node.items]
        return any(nullable for nullable, _ in parts), frozenset[Node]().union(*(words for _, words in parts))

    def _size(self) -> int:
        return sum(map(len, self.follow.values())) + sum(map(len, self._behind.values()))

    def _walk(self, node: Node, behind: Units) -> None:
        """Note what follows the words of a part, behind which the words `behind` may stand."""
        if self._is_word(node):
            self.follow.setdefault(node, set()).update(behind)
        elif isinstance(node, Name):
            self._behind[node.name] |= behind
        elif isinstance(node, Repeat):
            again = self.first(node.item)[1] if node.most != 1 else frozenset()
            self._walk(node.item, behind | again)
        elif isinstance(node, Concatenation):
            for item in reversed(node.items):
                self._walk(item, behind)
                nullable, words = self.first(item)
                behind = words | behind if nullable else words
        elif isinstance(node, Alternation):
            for item in node.items:
                self._walk(item, behind)
