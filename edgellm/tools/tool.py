"""Tools: what a model may call, each with a JSON schema of its arguments."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.tools.definitions import checked_definition
from edgellm.tools.python_values import python_arguments
from edgellm.tools.signatures import definition_of

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class Tool:
    """A tool. `definition` is the OpenAI definition that chat templates get: `{"type": "function", "function": …}`.

    `function` is what `run` calls; None for a tool that the caller runs.
    """

    definition: Mapping[str, Any]
    function: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """The name by which a model calls the tool."""
        return str(self.definition["function"]["name"])

    @property
    def description(self) -> str:
        """What the tool does, for the model; may be empty."""
        return self.definition["function"].get("description") or ""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema of the arguments, of the type object."""
        return self.definition["function"].get("parameters") or _NO_PARAMETERS

    def run(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function with the arguments of a call. Values become what the annotations name, such as an Enum.

        Raises OptionError for a tool without a function and for arguments that the function does not take; what the
        function raises goes through.
        """
        if self.function is None:
            raise OptionError(f"tool {self.name} has no function to run; give a function in place of its definition")
        return self.function(**python_arguments(self.function, self.name, arguments))


def tool_of(given: object) -> Tool:
    """The tool of a function, or of an OpenAI definition.

    A function's schema comes from its annotations, the descriptions from its docstring (Google, NumPy or Sphinx style).
    Raises OptionError, in one line, for anything else.
    """
    if isinstance(given, Tool):
        return given
    if isinstance(given, Mapping):
        return Tool(checked_definition(given))
    if callable(given):
        if inspect.iscoroutinefunction(given):
            name = printable(getattr(given, "__name__", type(given).__name__))
            raise OptionError(f"tool {name} is an async function; give one that returns its result")
        return Tool(checked_definition(definition_of(given)), given)
    kind = printable(type(given).__name__)
    raise OptionError(f"tools has a value of type {kind}; give functions or OpenAI definitions of functions")


def tools_of(given: Iterable[object]) -> dict[str, Tool]:
    """Tools by name, in order. Raises OptionError as `tool_of`, and for two tools with one name."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        kind = printable(type(given).__name__)
        raise OptionError(f"tools is a value of type {kind}; give a list of functions or OpenAI definitions")
    tools = dict[str, Tool]()
    for tool in map(tool_of, given):
        if tool.name in tools:
            raise OptionError(f"two tools have the name {tool.name}; give each a name of its own")
        tools[tool.name] = tool
    return tools
