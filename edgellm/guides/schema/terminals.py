"""Values that are written as one word, as terminals of a grammar of llguidance: Lark's, with `&` and `~`."""

from collections.abc import Iterable

from edgellm.guides.patterns.charset import ANY_CHAR
from edgellm.guides.patterns.nodes import ANY_TEXT, Chars, Node, Repeat
from edgellm.guides.schema.json_patterns import in_json
from edgellm.guides.schema.json_text import write_json
from edgellm.guides.schema.numbers import Numbers
from edgellm.guides.schema.part import Strings
from edgellm.guides.schema.shapes import Fixed, OtherNames


def literal(text: str) -> str:
    """A text that stands in a grammar as it is."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def expression(regex: str) -> str:
    """A regular expression in a grammar."""
    return f"/{regex.replace('/', chr(92) + '/')}/"


def one_of(values: Iterable[str]) -> str:
    """One of some texts."""
    return " | ".join(map(literal, values))


def fixed_terminal(fixed: Fixed) -> str:
    """Some values."""
    return one_of(map(write_json, fixed.values))


def number_terminal(numbers: Numbers) -> str:
    """Numbers. Raises NumberError."""
    if (listed := numbers.listed()) is not None:
        return one_of(map(write_json, listed))
    return " & ".join(map(expression, numbers.expressions()))


def string_terminal(strings: Strings) -> str:
    """Strings."""
    parts = list(map(_quoted, strings.patterns))
    if strings.least or strings.most is not None:
        parts.insert(0, _quoted(Repeat(Chars(ANY_CHAR), strings.least, strings.most)))
    return " & ".join(parts or [_quoted(ANY_TEXT)])


def name_terminal(others: OtherNames, taken: Iterable[str]) -> str:
    """The names of some properties, without those that are `taken`."""
    parts = [_quoted(node) for node in others.matching] or [_quoted(ANY_TEXT)]
    parts += [f"~{_quoted(node)}" for node in others.lacking]
    if names := one_of(map(write_json, taken)):
        parts.append(f"~({names})")
    return " & ".join(parts)


def _quoted(node: Node) -> str:
    return expression(f'"{in_json(node)}"')
