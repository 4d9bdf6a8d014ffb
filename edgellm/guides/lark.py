"""Grammars in Lark's syntax, as users and tools write them: the JSON schemas in them are made ready for llguidance.

The syntax is that of llguidance (https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md). A schema is
written as `%json {…}`.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from edgellm.errors import GuideError
from edgellm.guides.schema.prepare import prepare_schema

NO_FORCING = '\n%llguidance {"no_forcing": true}\n'
"""Keeps llguidance from following what is forced: where a grammar has no end, it would do so for ever."""

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

    `schemas` has, for each schema in it, which is one line now, that line and how many line ends it had before.
    """

    text: str
    may_break_utf8: bool = False
    schemas: tuple[tuple[int, int], ...] = ()

    def line(self, line: int) -> int:
        """The line, as the user wrote it, that is now at `line`; both count from 1."""
        return line + sum(ends for at, ends in self.schemas if at < line)


def is_lark(grammar: str) -> bool:
    """Whether a grammar is in Lark's syntax, and not in GBNF."""
    return re.search(r"^\s*(%llguidance\b|\??start\b[^:=\n]*:(?!:))", grammar, re.MULTILINE) is not None


def with_schemas(grammar: str) -> LarkGrammar:
    """A grammar in which the schema of each `%json {…}` is ready. Raises GuideError."""
    reader = _SchemaReader(grammar)
    return LarkGrammar("".join(reader.parts()), reader.negates, tuple(reader.schemas))


def _prepared(schema: str, line: int) -> str:
    """A schema that begins at a line of the grammar, ready. Raises GuideError, with the line."""
    try:
        return prepare_schema(schema)
    except GuideError as error:
        problem = str(error).removeprefix("option json_schema").lstrip(": ")
        raise GuideError(f"option grammar: line {line}: %json: {problem}") from None


class _SchemaReader:
    def __init__(self, grammar: str) -> None:
        self._grammar = grammar
        self.negates = False
        self.schemas: list[tuple[int, int]] = []

    def parts(self) -> Iterator[str]:
        """The grammar in parts. Raises GuideError."""
        at, line = 0, 1
        while found := _TOKEN.search(self._grammar, at):
            self._check(found)
            yield (part := self._grammar[at : found.end()])
            line, at = line + part.count("\n"), found.end()
            if found["json"]:
                schema, at = self._schema(found.end())
                self.schemas.append((line, self._grammar.count("\n", found.end(), at)))
                yield _prepared(schema, line)
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
