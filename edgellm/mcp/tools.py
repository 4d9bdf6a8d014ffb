"""Tools of MCP servers as ours: `server__tool`, with the definition of the server, checked."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from edgellm.errors import OptionError
from edgellm.fmt import printable, size
from edgellm.guides.compile import check
from edgellm.guides.spec import GuideSpec
from edgellm.text.json_values import json_value
from edgellm.tools.schemas import guided_parameters
from edgellm.tools.tool import Tool, tool_of

_NAME_LENGTH = 64
"""Characters of a name; templates and other programs take these."""
_MAX_DEFINITION = 1 << 16
_OTHER = re.compile(r"[^A-Za-z0-9_.-]")

Call = Callable[[str, Mapping[str, Any]], str]
"""The result of the tool of a server, by its name there, for some arguments."""


class ListedTool(Protocol):
    """What is read of a tool as the package mcp has it."""

    name: str
    description: str | None
    input_schema: dict[str, Any]


class ServerFunction:
    """The function of a server's tool. What goes wrong is text."""

    def __init__(self, call: Call, name: str) -> None:
        self._call, self._name = call, name

    def __call__(self, /, **arguments: Any) -> str:
        """Call the tool with the arguments."""
        return self._call(self._name, json_value(arguments, "arguments"))


def add_tools(
    tools: dict[str, Tool], problems: list[str], server: str, listed: Iterable[ListedTool], call: Call
) -> None:
    """Add the tools of a server, by names of their own; and a line about each tool that is left out."""
    seen = set[str]()
    for each in listed:
        place = f"MCP server {printable(server)}: tool {printable(each.name)} is left out"
        if each.name in seen:
            problems.append(f"{place}, as it is listed twice")
            continue
        seen.add(each.name)
        name = _free_name(f"{server}__{each.name}", tools)
        try:
            tools[name] = Tool(_definition(name, each), ServerFunction(call, each.name))
        except OptionError as error:
            problems.append(f"{place}: {str(error).removeprefix('option json_schema: ')}")


def _definition(name: str, listed: ListedTool) -> Mapping[str, Any]:
    """A definition that templates and guides take. Raises OptionError."""
    made = {"name": name, "description": listed.description or "", "parameters": listed.input_schema}
    tool = tool_of(made)
    if (nbytes := len(json.dumps(tool.definition))) > _MAX_DEFINITION:
        raise OptionError(f"its definition has {size(nbytes)}, more than {size(_MAX_DEFINITION)}")
    check(GuideSpec("json_schema", json.dumps(guided_parameters(tool))))
    return tool.definition


def _free_name(wanted: str, taken: Mapping[str, Tool]) -> str:
    """A valid name that no other tool has."""
    name = _OTHER.sub("_", wanted)[:_NAME_LENGTH]
    number = 1
    while name in taken:
        number += 1
        name = f"{name[: _NAME_LENGTH - 5].removesuffix(f'_{number - 1}')}_{number}"
    return name
