"""Grammars of replies with calls, as text in the Lark of llguidance.

Syntax: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md. A mark that is a token is written by its id,
`<[7]>`, which no text matches; other marks are literals. Text before a call ends lazily at a literal.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from edgellm.tools.schemas import guided_parameters
from edgellm.tools.tool import Tool

ANY = "(?s:.*)"
"""The regular expression of any text."""


class Grammar:
    """The rules of one grammar, by name.

    `tools` are the tools that may be called. `parallel`: several calls may follow each other. `must_call`: text without
    a call is no reply; with `may_call` false, only text is one. `may_think`: replies may have thoughts, where
    grammars cover them.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        tokens: Mapping[str, int],
        parallel: bool,
        must_call: bool,
        may_call: bool,
        may_think: bool = True,
    ) -> None:
        self.tools, self.parallel, self.must_call, self.may_call = tools, parallel, must_call, may_call
        self.may_think = may_think
        self._tokens, self._rules = tokens, dict[str, str]()

    def text(self) -> str:
        """The grammar."""
        return "\n".join(f"{name}: {body}" for name, body in self._rules.items()) + "\n"

    def add(self, name: str, body: str) -> str:
        """Add a rule, or for an uppercase name a terminal, unless it is there. Returns its name without options."""
        self._rules.setdefault(name, body)
        return name.partition("[")[0]

    def is_token(self, mark: str) -> bool:
        """Whether a mark is a token."""
        return mark in self._tokens

    def mark(self, text: str) -> str:
        """A mark, as its token or as text."""
        return f"<[{self._tokens[text]}]>" if text in self._tokens else literal(text)

    def text_and_mark(self, text: str, mark: str) -> str:
        """A text and the mark behind it. A mark that is text becomes one word with it: words end where no longer one
        goes on."""
        return f"{literal(text)} {self.mark(mark)}" if self.is_token(mark) else literal(text + mark)

    def any_text(self) -> str:
        """The terminal of any text."""
        return self.add("TEXT", f"/{ANY}/")

    def up_to(self, name: str, *ends: str, without: str = "") -> str:
        """A rule of text up to and with the first of `ends`, which are marks.

        `without` is a regular expression of what a text whose end is no token has nowhere.
        """
        if len(ends) == 1 and self.is_token(ends[0]):
            return f"({self.any_text()} {self.mark(ends[0])})"
        endings = "|".join(map(pattern, ends))
        excluded = f" & ~/{ANY}{without}{ANY}/" if without else ""
        return self.add(f"{name}[lazy]", f"/{ANY}(?:{endings})/{excluded}")

    def arguments(self, tool: Tool) -> str:
        """The JSON object of a tool's arguments."""
        return self.json(guided_parameters(tool))

    def json(self, schema: Any) -> str:
        """JSON that follows a schema."""
        return f"%json {json.dumps(schema, ensure_ascii=False)}"

    def repeated(self, call: str, separator: str = "") -> str:
        """A call, and with `parallel` more of them, with a separator between two."""
        return f"{call} ({separator} {call})*" if self.parallel else call

    def of_each_tool(self, call: Callable[[Tool], str]) -> str:
        """The rule of a call of any tool; `call` gives the body for one."""
        return self.add("call", " | ".join(call(tool) for tool in self.tools.values()))

    def object(self, name: str = "name", arguments: str = "arguments") -> str:
        """The rule of a call as a JSON object with these keys."""

        def body(tool: Tool) -> str:
            head = literal(f'{{"{name}": {json.dumps(tool.name)}, "{arguments}": ')
            return f'{head} {self.arguments(tool)} "}}"'

        return self.of_each_tool(body)

    def start_repeated(self, opener: str, call: str, separator: str) -> None:
        """The start rule of calls that each begin with the mark `opener`; `call` is what follows it."""
        more = f"({separator} {self.mark(opener)} {call})*" if self.parallel else ""
        self.start(opener, f"{call} {more}")

    def start(self, opener: str, rest: str) -> None:
        """The start rule: text, and calls that begin with the mark `opener`, of which `rest` is what follows it."""
        if not self.may_call:
            self.add("start", self.text_without(opener))
        elif self.must_call:
            self.add("start", f"{self.mark(opener)} {rest}")
        else:
            self.add("start", f"{self.any_text()} | {self.up_to('opened', opener)} {rest}")

    def text_without(self, *openers: str) -> str:
        """Text in which no call begins. Vocabularies may have a mark as a token that is no control token."""
        excluded = "|".join(map(pattern, openers))
        return self.add("TEXT_ALONE", f"/{ANY}/ & ~/{ANY}(?:{excluded}){ANY}/")


def literal(text: str) -> str:
    """A text in the grammar."""
    return json.dumps(text, ensure_ascii=False)


def pattern(text: str) -> str:
    """A regular expression of a text, for use between slashes."""
    return re.sub(r"[.^$*+?{}\[\]\\|()/]", lambda found: "\\" + found[0], text).replace("\n", "\\n")


def alternatives(*bodies: str) -> str:
    """One of some rule bodies."""
    return f"({' | '.join(bodies)})" if len(bodies) != 1 else bodies[0]
