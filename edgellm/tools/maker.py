"""Makes the calls of a reply from what was read."""

from collections.abc import Mapping
from typing import Any

from edgellm.fmt import printable
from edgellm.text.utf8 import replace_surrogates
from edgellm.tools.calls import ToolCall, call_id
from edgellm.tools.notation import JSON, Notation
from edgellm.tools.source import CUT_OFF, INCOMPLETE, MalformedError, ReplySource
from edgellm.tools.symbols import Symbols
from edgellm.tools.tool import Tool

NAMES = ("name", "tool_name")
ARGUMENTS = ("arguments", "parameters")
"""The keys of a call in JSON, by family of models."""


class CallMaker:
    """Checks calls, and numbers those that have no id of their own."""

    def __init__(self, tools: Mapping[str, Tool], first: int = 0) -> None:
        """`first` is the number of calls that the conversation has so far."""
        self.tools, self._next = tools, first

    def call(self, name: object, arguments: object, own_id: object = None) -> ToolCall:
        """A call. Raises MalformedError if there is no such tool, or if the arguments are no object."""
        self.check_name(name)
        if not isinstance(arguments, Mapping):
            raise MalformedError("the arguments are no object")
        number, self._next = self._next, self._next + 1
        return ToolCall(own_id if isinstance(own_id, str) and own_id else call_id(number), str(name), arguments)

    def check_name(self, name: object) -> Tool:
        """The tool of that name. Raises MalformedError if there is none."""
        if not isinstance(name, str) or not name:
            raise MalformedError("the call has no name")
        if name not in self.tools:
            known = printable(", ".join(self.tools), 200) or "none"
            raise MalformedError(f"there is no tool {printable(name)}; the tools are {known}")
        return self.tools[name]

    def calls(self, value: object) -> list[ToolCall]:
        """The calls in a JSON value: an object with name and arguments in any order, or a list of such objects."""
        if isinstance(value, list):
            return [call for item in value for call in self.calls(item)]
        if not isinstance(value, Mapping):
            raise MalformedError("the call is no object")
        inner = value.get("function")
        if isinstance(inner, Mapping):
            value = {**value, **inner}
        name = next((value[key] for key in NAMES if key in value), inner)
        return [self.call(name, _arguments(value), value.get("id"))]


def _arguments(value: Mapping[str, Any]) -> object:
    """The arguments of a call in JSON. Some models write them as text with JSON in it, or leave them out."""
    found = next((value[key] for key in ARGUMENTS if key in value), None)
    if not isinstance(found, str):
        return {} if found is None else found
    return parsed(found) if found.strip() else {}


def parsed(text: str, notation: Notation = JSON) -> Any:
    """The value of a whole text. Raises MalformedError, with INCOMPLETE for text that ends inside of the value."""
    source = ReplySource()
    source.feed(replace_surrogates(text))
    source.ended = True
    reading = notation.value(source, Symbols((), ()))
    try:
        next(reading)
    except StopIteration as done:
        if source.rest().strip():
            raise MalformedError("text follows the value") from None
        return done.value
    except MalformedError as error:
        raise MalformedError(INCOMPLETE if str(error) == CUT_OFF else str(error)) from None
    raise AssertionError("a source that has ended has no more text to wait for")
