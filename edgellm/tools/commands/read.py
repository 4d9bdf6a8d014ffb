"""The file of commands: JSON, `{"tools": [{"name": …, "command": [program, item, …], …}]}` or the list alone."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from edgellm.errors import OptionError
from edgellm.fmt import printable, shown_path
from edgellm.system.text_input import decode_text_file, read_input
from edgellm.text.json_values import parsed_json
from edgellm.tools.commands.code import code_problem
from edgellm.tools.commands.command import Command, CommandFunction
from edgellm.tools.commands.template import ArgvTemplate, names_in
from edgellm.tools.tool import Tool, tool_of, tools_of

TIMEOUT_S = 30.0
_MAX_TIMEOUT_S = 86_400.0
_FIELDS = ("name", "description", "parameters", "command", "timeout_s", "folder")
_SHAPE = 'give {"tools": [{"name": …, "description": …, "command": [program, item, …]}]}'


def read_commands(path: str | os.PathLike[str], cancelled: threading.Event | None = None) -> dict[str, Tool]:
    """The commands in a file as tools, by name.

    An entry has `name` and `command`, and may have `description`, `parameters` (a JSON schema; by default a required
    text for each placeholder), `timeout_s` (by default 30) and `folder` (where it runs; relative to the file's folder,
    by default the current one). Items of `command` have placeholders `{name}`, see `edgellm.tools.commands.template`.
    While `cancelled` is set, no command runs, see `CommandFunction`.

    Raises OptionError, which names the file, the entry and the field, and EdgeLLMError for a file that cannot be read.
    """
    name, folder = shown_path(path), Path(path).parent
    entries = tool_entries(decode_text_file(read_input(str(path)), str(path)), str(path))
    tools = [command_tool(entry, f"{name}: tools[{i}]", folder, cancelled) for i, entry in enumerate(entries)]
    try:
        return tools_of(tools)
    except OptionError as error:
        raise OptionError(f"{name}: {error}") from None


def tool_entries(text: str, origin: str, shape: str = _SHAPE) -> list[Mapping[str, Any]]:
    """The entries of a file of tools. Raises OptionError with `origin` for other text, and `shape` as advice."""
    name = shown_path(origin)
    found = parsed_json(text, name, shape)
    entries = found.get("tools") if isinstance(found, dict) else found
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise OptionError(f"{name} has no list of tools; {shape}")
    if unknown := [key for key in found if key != "tools"] if isinstance(found, dict) else []:
        raise OptionError(f"{name}: {printable(unknown[0], 100)} is no field beside tools; {shape}")
    return entries


def command_tool(entry: Mapping[str, Any], place: str, folder: Path, cancelled: threading.Event | None = None) -> Tool:
    """The tool of an entry with a command; `folder` is that of the file. Raises OptionError with `place`."""
    place = f"{place} ({printable(entry['name'], 40)})" if isinstance(entry.get("name"), str) else place
    if unknown := [key for key in entry if key not in _FIELDS]:
        _fail(place, printable(unknown[0]), f"is no field of a command; there are {', '.join(_FIELDS)}")
    items = _items(entry, place)
    names = names_in(*items)
    default = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    definition = {key: entry[key] for key in ("name", "description", "parameters") if entry.get(key) is not None}
    try:
        tool = tool_of({**definition, "parameters": definition.get("parameters", default)})
    except OptionError as error:
        problem = str(error).removeprefix(f"tool {entry.get('name')}: ")  # which the place names
        raise OptionError(f"{place}: {problem}") from None
    if unknown := [name for name in names if name not in tool.parameters.get("properties", {})]:
        _fail(place, "command", f"has the placeholder {{{unknown[0]}}}, but parameters.properties has no {unknown[0]}")
    required = tuple(tool.parameters.get("required", ()))
    limits = _timeout_s(entry, place), _folder(entry, place, folder)
    command = Command(ArgvTemplate(tool.name, items), required, *limits)
    return Tool(tool.definition, CommandFunction(command, cancelled or threading.Event()))


def _items(entry: Mapping[str, Any], place: str) -> list[str]:
    items = entry.get("command")
    if not isinstance(items, list) or not items or not all(isinstance(item, str) for item in items):
        _fail(place, "command", 'is no list of texts; give ["program", "item", "{argument}"], as no shell reads it')
    if not items[0] or any("\0" in item for item in items):
        _fail(place, "command", "names no program, or has the character U+0000")
    if problem := code_problem(items):
        _fail(place, "command", problem)
    return items


def _timeout_s(entry: Mapping[str, Any], place: str) -> float:
    value = entry.get("timeout_s", TIMEOUT_S)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MAX_TIMEOUT_S:
        _fail(place, "timeout_s", f"is {printable(repr(value), 60)}; give seconds above 0, up to {_MAX_TIMEOUT_S:.0f}")
    return float(value)


def _folder(entry: Mapping[str, Any], place: str, base: Path) -> Path | None:
    if (given := entry.get("folder")) is None:
        return None
    if not isinstance(given, str) or "\0" in given:
        _fail(place, "folder", "is no path")
    try:
        found = (base / Path(given).expanduser()).resolve()
        is_folder = found.is_dir()
    except (OSError, RuntimeError, ValueError):
        is_folder = False
    if not is_folder:
        _fail(place, "folder", f"is {printable(given, 200)}, where there is no folder")
    return found


def _fail(place: str, field: str, problem: str) -> NoReturn:
    raise OptionError(f"{place}: {field} {problem}")
