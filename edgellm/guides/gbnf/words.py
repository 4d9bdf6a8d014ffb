"""The grammar of llguidance for a GBNF grammar.

llguidance first reads words, each as long as it can be, and then puts words together by rules; GBNF has characters
alone. A part of a rule that does not contain itself, by way of any rules, can be a word. It stays one unless that would
change which texts the grammar has: if a text of one word can go on as a longer word, with a character that the word
behind it begins with. Then the longer one is taken apart, in the end to single characters.
"""

from collections.abc import Iterator
from functools import cache, reduce
from itertools import product
from operator import or_

from edgellm.errors import GuideError
from edgellm.guides.gbnf.automaton import START, Automaton
from edgellm.guides.gbnf.finite import finite_rules
from edgellm.guides.gbnf.flow import Flow
from edgellm.guides.gbnf.parser import ROOT, Rules, parse
from edgellm.guides.patterns.charset import CharSet
from edgellm.guides.patterns.nodes import Alternation, Chars, Concatenation, Name, Node, Repeat
from edgellm.guides.patterns.text import rust


def gbnf_to_lark(text: str) -> str:
    """The grammar in Lark's syntax. Raises GuideError for one that is not valid, with the line."""
    try:
        return _Words(finite_rules(parse(text))).lark()
    except RecursionError:
        raise GuideError("option grammar: it has too many levels of brackets or rules; make it flatter") from None


class _Words:
    """Finds out which parts of the rules are words."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        contained = {name: set(_contained(rules, name)) for name in rules}
        recursive = {name for name in rules if name in contained[name]}
        self._regular = {name for name in rules if name not in recursive and not contained[name] & recursive}
        self._split: set[Node] = set()
        self._automaton = cache(lambda node: Automaton(rules, node))
        while longer := self._ambiguous():
            self._split |= longer

    def lark(self) -> str:
        """The grammar."""
        words, names = dict[Node, str](), {name: f"rule_{i}" for i, name in enumerate(self._bodies())}

        def write(node: Node) -> str:
            if self._is_word(node):
                return words.setdefault(node, f"WORD_{len(words)}")
            if isinstance(node, Name):
                return names[node.name]
            if isinstance(node, Repeat):
                return f"({write(node.item)}){{{node.least},{'' if node.most is None else node.most}}}"
            assert isinstance(node, Concatenation | Alternation), "a character is a word"
            separator = " " if isinstance(node, Concatenation) else " | "
            return f"({separator.join(map(write, node.items))})" if node.items else '""'

        lines = [f"{names[name]}: {write(body)}" for name, body in self._bodies().items()]
        start = f"start: {write(Name(ROOT))}"
        terminals = [f"{name}: /{self._expression(node)}/" for node, name in words.items()]
        return "\n".join([start, *lines, *terminals]) + "\n"

    def _expression(self, node: Node) -> str:
        return rust(self._inlined(node)).replace("/", r"\/") or "(?:)"

    def _inlined(self, node: Node) -> Node:
        """A regular part without names of rules."""
        if isinstance(node, Name):
            return self._inlined(self._rules[node.name])
        if isinstance(node, Concatenation | Alternation):
            return type(node)(tuple(map(self._inlined, node.items)))
        return Repeat(self._inlined(node.item), node.least, node.most) if isinstance(node, Repeat) else node

    def _is_word(self, node: Node) -> bool:
        return node not in self._split and self._is_regular(node)

    def _is_regular(self, node: Node) -> bool:
        if isinstance(node, Name):
            return node.name in self._regular
        if isinstance(node, Concatenation | Alternation):
            return all(map(self._is_regular, node.items))
        return self._is_regular(node.item) if isinstance(node, Repeat) else True

    def _bodies(self) -> dict[str, Node]:
        """The rules that are no words."""
        return {name: body for name, body in self._rules.items() if not self._is_word(Name(name))}

    def _ambiguous(self) -> set[Node]:
        """Words that are longer than another with which they begin, where the text may go on either way."""
        bodies = self._bodies()
        flow = Flow(bodies, self._is_word, lambda node: self._automaton(node).nullable)
        behind = {word: self._first_chars(after) for word, after in flow.follow.items()}
        pairs = ((word, longer) for word, longer in product(behind, behind) if not isinstance(longer, Chars))
        return {longer for word, longer in pairs if self._goes_on(word, behind[word], longer)}

    def _first_chars(self, words: set[Node]) -> CharSet:
        return reduce(or_, (self._automaton(word).first_chars() for word in words), CharSet(()))

    def _goes_on(self, word: Node, behind: CharSet, longer: Node) -> bool:
        """Whether a text of `word` and a character of `behind` begin a text of `longer`."""
        one, other = self._automaton(word), self._automaton(longer)
        seen, waiting = set[tuple[int, int]](), [(START, START)]
        while waiting:
            pair = waiting.pop()
            if pair in seen:
                continue
            seen.add(pair)
            may_end = pair[0] != START and one.accepts(pair[0])
            if may_end and any((chars & behind).ranges for _, chars in other.transitions(pair[1])):
                return True
            steps = product(one.transitions(pair[0]), other.transitions(pair[1]))
            waiting += [(a, b) for (a, chars), (b, others) in steps if (chars & others).ranges]
        return False


def _contained(rules: Rules, name: str) -> Iterator[str]:
    """The names of the rules that a rule contains, if only by way of others."""
    seen, waiting = set[str](), [rules[name]]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Concatenation | Alternation):
            waiting += node.items
        elif isinstance(node, Repeat):
            waiting.append(node.item)
        elif isinstance(node, Name) and node.name not in seen:
            seen.add(node.name)
            yield node.name
            waiting.append(rules[node.name])
