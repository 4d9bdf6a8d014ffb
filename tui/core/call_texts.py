"""Calls of tools as text for the user."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import category

from edgellm.errors import OptionError
from edgellm.fmt import counted, printable
from edgellm.terminal.sanitize import sanitize
from edgellm.tools.calls import REFUSED, ToolCall

if TYPE_CHECKING:
    from edgellm.tools.tool import Tool

_SUMMARY = 60
"""Characters of the arguments in a summary."""
_TOO_DEEP = "too many levels of values inside each other"
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def summary(call: ToolCall) -> str:
    """A call on one line: `weather(city="Paris")`. Long arguments are cut."""
    arguments = ", ".join(f"{name}={_json(value)}" for name, value in call.arguments.items())
    return f"{printable(call.name)}({printable(arguments, _SUMMARY)})"


def result_summary(call: ToolCall, result: str) -> str:
    """A call and the size of its result on one line: `called weather(city="Paris") · 12 lines`."""
    if result == REFUSED:
        return f"{summary(call)} · refused"
    size = counted(len(result.splitlines()), "line") if result.strip() else "no output"
    return f"called {summary(call)} · {size}"


def details(call: ToolCall) -> str:
    """The tool and all arguments of a call, as JSON in lines. Nothing in it is cut or invisible."""
    arguments = _json(dict(call.arguments), indent=2)
    return "\n".join(_escaped(line) for line in f"{call.name} {arguments}".split("\n"))


def what_runs(tool: Tool, call: ToolCall) -> str:
    """Exactly what a call runs: a command, or a tool of a server with its arguments.

    Arguments that a command gets on stdin alone are below it. Raises OptionError if it does not take the arguments.
    """
    from edgellm.tools.commands import argv_of, on_stdin_alone  # on demand

    if _json(dict(call.arguments), indent=2) == _TOO_DEEP:
        raise OptionError(f"tool {call.name}: the arguments have {_TOO_DEEP}")
    argv = argv_of(tool, call.arguments)
    if argv is None:
        return details(call)
    read = {name: call.arguments[name] for name in on_stdin_alone(tool, call.arguments)}
    return command_line(argv) + (f"\non stdin: {_escaped(_json(read))}" if read else "")


def command_line(argv: Sequence[str]) -> str:
    """The command that a call runs; an item that is not of plain characters is a JSON string. No shell reads it."""
    return _escaped(" ".join(item if _PLAIN.fullmatch(item) else _json(item) for item in argv))


def _escaped(text: str) -> str:
    """A line of text; what a terminal may not show is an escape: skin tones, and marks where one character has many."""
    shown = printable(text, len(text))
    if sanitize(shown) == shown:
        return shown
    return "".join(ascii(c)[1:-1] if sanitize(c) != c or category(c).startswith("M") else c for c in shown)


def _json(value: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:  # some versions of Python read more levels than they write
        return _TOO_DEEP
