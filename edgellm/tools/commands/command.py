"""A command as a tool."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgellm.errors import OptionError
from edgellm.tools.commands.process import run_command
from edgellm.tools.commands.template import ArgvTemplate, names_in
from edgellm.tools.tool import Tool


@dataclass(frozen=True)
class Command:
    """What a tool runs, in `folder` (None: the current one). `required` are the names of arguments."""

    template: ArgvTemplate
    required: Sequence[str]
    timeout_s: float
    folder: Path | None

    def argv(self, arguments: Mapping[str, Any]) -> list[str]:
        """What runs for the arguments of a call. Raises OptionError if one is missing; see `ArgvTemplate.filled`."""
        if missing := [name for name in self.required if arguments.get(name) is None]:
            raise OptionError(f"tool {self.template.tool}: argument {missing[0]} is missing")
        return self.template.filled(arguments)


class CommandFunction:
    """The function of a command's tool: runs the command and returns its output as text.

    The arguments are also on stdin, as a JSON object. From any thread, setting `cancelled` ends the runs of that time
    within a second, and later ones return at once, until it is cleared.
    """

    def __init__(self, command: Command, cancelled: threading.Event) -> None:
        self.command, self._cancelled = command, cancelled

    def __call__(self, /, **arguments: Any) -> str:
        """Run the command. Raises OptionError as `Command.argv`."""
        command = self.command
        stdin = json.dumps(arguments).encode() + b"\n"
        return run_command(command.argv(arguments), stdin, command.folder, command.timeout_s, self._cancelled)


def argv_of(tool: Tool, arguments: Mapping[str, Any]) -> list[str] | None:
    """What a call would run, to ask the user before; None if the tool is no command.

    Raises OptionError for arguments that the command does not take: `tool.run` raises the same.
    """
    return tool.function.command.argv(arguments) if isinstance(tool.function, CommandFunction) else None


def on_stdin_alone(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """The names of the arguments of a call for which the argv has no placeholder: the command reads them from stdin."""
    if not isinstance(tool.function, CommandFunction):
        return []
    placed = names_in(*tool.function.command.template.items)
    return [name for name in arguments if name not in placed]
