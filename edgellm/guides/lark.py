"""Grammars in Lark's syntax, as users and tools write them: JSON schemas in them become rules.

The syntax is that of llguidance (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md). A schema is
written as `%json {…}`.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from edgellm.errors import GuideError
from edgellm.guides.schema.grammar import schema_grammar

_TOKEN = re.compile(
    r"""(?P<comment>(?://|\#)[^\n]*)
    | "(?:[^"\\\n]|\\.)*"i?
    | /(?!/)(?:[^/\\\n]|\\.)+/[a-z]*
    | (?P<json>%json\s*)(?=[{tf])
    | (?P<negation>~)
    | \[(?P<attributes>[^\]"/]*)""",
    re.VERBOSE,
)
_REFUSED = re.compile(r"\b(temperature|stop|max_tokens)\b")


class LarkGrammar(NamedTuple):
    """A grammar. `may_break_utf8`: by a negation it may allow bytes that are no characters.

    `schema_lines` has, for each schema that became a rule, its last line in the new text and the lines that it had.
    """

    text: str
    may_break_utf8: bool
    schema_lines: tuple[tuple[int, int], ...]

    def line(self, line: int) -> int:
        """The line, as the user wrote it, that is now at `line`; both count from 1."""
        return line + sum(lines for at, lines in self.schema_lines if at < line)


def is_lark(grammar: str) -> bool:
    """Whether a grammar is in Lark's syntax, and not in GBNF."""
    return re.search(r"^\s*(%llguidance\b|\??start\b[^:=\n]*:(?!:))", grammar, re.MULTILINE) is not None


NO_FORCING = '\n%llguidance {"no_forcing": true}\n'
"""Keeps llguidance from following what is forced: where a grammar has no end, it would do so for ever."""


def with_schemas(grammar: str, has_text: Callable[[str], bool]) -> LarkGrammar:
    """A grammar in which each `%json {…}` is a rule. Raises GuideError."""
    reader = _SchemaReader(grammar, has_text)
    text = "".join(reader.parts())
    return LarkGrammar("\n".join([text, *reader.rules]), reader.negates, tuple(reader.schema_lines))


class _SchemaReader:
    def __init__(self, grammar: str, has_text: Callable[[str], bool]) -> None:
        self._grammar, self._has_text = grammar, has_text
        self.rules: list[str] = []
        self.negates = False
        self.schema_lines: list[tuple[int, int]] = []

    def parts(self) -> Iterator[str]:
        """The grammar in parts, with names of rules in place of schemas. Raises GuideError."""
        at, lines = 0, 1
        while found := _TOKEN.search(self._grammar, at):
            self._check(found)
            yield (part := self._grammar[at : found.start()] + ("" if found["json"] else found[0]))
            lines, at = lines + part.count("\n"), found.end()
            if found["json"]:
                schema, at = self._schema(found.end())
                self.schema_lines.append((lines, self._grammar.count("\n", found.start(), at)))
                yield self._add(schema)
        yield self._grammar[at:]

    def _check(self, found: re.Match[str]) -> None:
        self.negates = self.negates or found["negation"] is not None
        if refused := _REFUSED.search(found["attributes"] or ""):
            line = self._grammar.count("\n", 0, found.start()) + 1
            raise GuideError(f"option grammar: line {line} has {refused[0]}, which no guide follows; leave it out")

    def _schema(self, at: int) -> tuple[str, int]:
        """The JSON text of a schema that begins at `at`, and where it ends."""
        try:
            value, end = json.JSONDecoder().raw_decode(self._grammar, at)
            return json.dumps(value), end
        except (ValueError, RecursionError) as error:
            line = self._grammar.count("\n", 0, at) + 1
            raise GuideError(f"option grammar: line {line} has a %json whose schema is not valid: {error}") from None

    def _add(self, schema: str) -> str:
        name = f"json_schema_{len(self.rules)}"
        self.rules.append(schema_grammar(schema, self._has_text, name, name))
        return name
