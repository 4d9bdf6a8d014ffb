"""The file of MCP servers that many programs share: `{"mcpServers": {name: {"command": …, "args": […], "env": {…}}}}`.

It may have settings of other programs, which are ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgellm.errors import OptionError
from edgellm.fmt import printable, shown_path
from edgellm.system.text_input import decode_text_file, read_input
from edgellm.text.json_values import parsed_json

_SHAPE = 'give {"mcpServers": {"name": {"command": "program", "args": [], "env": {}}}}'


@dataclass(frozen=True)
class ServerSettings:
    """How to start a server. `env` is added to the few variables that every server gets; `folder`: where it runs."""

    name: str
    command: str
    args: Sequence[str]
    env: Mapping[str, str]
    folder: str | None


def read_servers(path: Path) -> list[ServerSettings]:
    """The servers in a file, without those that are `disabled`.

    Raises OptionError, which names the file, the server and the field, and EdgeLLMError for a file that cannot be read.
    """
    origin = shown_path(path)
    found = parsed_json(decode_text_file(read_input(str(path)), str(path)), origin, _SHAPE)
    servers = found.get("mcpServers") if isinstance(found, dict) else None
    if not isinstance(servers, dict) or not all(isinstance(each, dict) for each in servers.values()):
        raise OptionError(f"{origin} has no servers; {_SHAPE}")
    try:
        return [_settings(name, entry) for name, entry in servers.items() if entry.get("disabled") is not True]
    except _FieldError as error:
        raise OptionError(f"{origin}: {error}") from None


class _FieldError(Exception):
    """A field of a server is wrong. The text names both."""


def _settings(name: str, entry: Mapping[str, Any]) -> ServerSettings:
    if not name:
        raise _FieldError(f"mcpServers: a server has no name; {_SHAPE}")
    place = f"mcpServers.{printable(name, 60)}"
    command, args, env, folder = (entry.get(key) for key in ("command", "args", "env", "cwd"))
    if command is None and ("url" in entry or "serverUrl" in entry):
        raise _FieldError(f'{place} is a server on the network; give one with a command, or write "disabled": true')
    if not _is_text(command) or not command:
        raise _FieldError(f"{place}.command is no text; give the program that runs the server")
    if not isinstance(args, list | None) or not all(map(_is_text, args or ())):
        raise _FieldError(f"{place}.args is no list of texts")
    if not isinstance(env, dict | None) or not all(map(_is_text, [*(env or {}), *(env or {}).values()])):
        raise _FieldError(f"{place}.env is no object of texts")
    if folder is not None and not _is_text(folder):
        raise _FieldError(f"{place}.cwd is no path")
    return ServerSettings(name, command, args or (), env or {}, folder)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value
