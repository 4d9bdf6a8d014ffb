"""From a JSON schema to a grammar of llguidance that gives only valid JSON.

llguidance compiles schemas, too, but what it allows is not always valid: numbers that a bound excludes, dates that do
not exist, two spellings of one key. It reads patterns in a dialect of its own, and ignores misspelled keywords. Here a
schema is worked out to rules and words whose texts are all valid, and what cannot be worked out is refused.
"""

from collections.abc import Callable

from edgellm.errors import GuideError
from edgellm.guides.schema.algebra import Algebra
from edgellm.guides.schema.document import Document, fail
from edgellm.guides.schema.numbers import Numbers
from edgellm.guides.schema.part import Arrays, Conjunction, Strings
from edgellm.guides.schema.possible import Possible
from edgellm.guides.schema.rules import ObjectRules, array_rule
from edgellm.guides.schema.shapes import Fixed, Shape
from edgellm.guides.schema.terminals import fixed_terminal, number_terminal, string_terminal

_ROOT: Conjunction = ((),)


def schema_grammar(schema: str, has_text: Callable[[str], bool], start: str = "start", prefix: str = "json") -> str:
    """The rules of a grammar for the values of a schema, which is JSON text.

    The first rule is `start`; names of others begin with `prefix`. `has_text` tells whether a terminal has a text.
    Raises GuideError, with the place in the schema, for what no grammar can follow.
    """
    try:
        return SchemaWriter(schema, has_text, prefix).grammar(start)
    except RecursionError:
        raise GuideError("option json_schema has too many levels") from None


class SchemaWriter:
    """Writes the rules of one schema: a rule for each conjunction, and a terminal for each kind of word."""

    def __init__(self, schema: str, has_text: Callable[[str], bool], prefix: str) -> None:
        self._algebra = Algebra(Document(schema))
        self.possible = Possible(self._algebra, has_text)
        self._prefix = prefix
        self._rules: dict[Conjunction, str] = {}
        self._waiting: list[Conjunction] = []
        self._terminals: dict[str, str] = {}
        self._lines: list[str] = []

    def grammar(self, start: str) -> str:
        """All rules. Raises GuideError."""
        if not self.possible(_ROOT):
            fail((), "is valid for no value")
        self.possible.check_exclusive()
        lines = [f"{start}: {self.rule(_ROOT)}"]
        while self._waiting:
            schema = self._waiting.pop()
            shapes = [shape for shape in self._algebra.shapes(schema) if self.possible.has(shape)]
            lines.append(f"{self._rules[schema]}: {' | '.join(self._shape(schema, shape) for shape in shapes)}")
        terminals = [f"{name}: {expression}" for expression, name in self._terminals.items()]
        return "\n".join([*lines, *self._lines, *terminals]) + "\n"

    def rule(self, schema: Conjunction) -> str:
        """The name of the rule for the values of a schema, which are possible."""
        if schema not in self._rules:
            self._rules[schema] = f"{self._prefix}_{len(self._rules)}"
            self._waiting.append(schema)
        return self._rules[schema]

    def terminal(self, expression: str) -> str:
        """The name of a terminal."""
        return self._terminals.setdefault(expression, f"{self._prefix.upper()}_{len(self._terminals)}")

    def add_rule(self, body: str) -> str:
        """Add a rule; returns its name."""
        name = f"{self._prefix}_part_{len(self._lines)}"
        self._lines.append(f"{name}: {body}")
        return name

    def _shape(self, schema: Conjunction, shape: Shape) -> str:
        """A rule's alternative for a shape."""
        if isinstance(shape, Fixed):
            return self.terminal(fixed_terminal(shape))
        if isinstance(shape, Numbers):
            return self.terminal(number_terminal(shape))
        if isinstance(shape, Strings):
            return self.terminal(string_terminal(shape))
        if isinstance(shape, Arrays):
            return array_rule(self, shape)
        return ObjectRules(self, schema, shape).body()
