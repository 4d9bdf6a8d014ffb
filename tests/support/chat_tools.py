"""Files of commands, and calls of them, for tests of the chat."""

import json
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from edgellm.tools.calls import ToolCall

PRINT = [sys.executable, "-c", "import sys; print(sys.argv[1], 'is sunny'); print('wind: 3')", "{city}"]
WAIT = [sys.executable, "-c", "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(60)", "{path}"]


def write_commands(path: Path, **commands: list[str]) -> Path:
    """Write a file of commands by their names."""
    entries = [{"name": name, "description": f"The {name}", "command": argv} for name, argv in commands.items()]
    path.write_text(json.dumps({"tools": entries}))
    return path


def call(name: str, number: int = 0, **arguments: Any) -> ToolCall:
    return ToolCall(f"call{number:05}", name, arguments)


def wait_for(file: Path) -> None:
    """Wait until a command has written a file."""
    end = monotonic() + 20
    while not file.exists():
        assert monotonic() < end, "the command has not begun"
        sleep(0.01)
