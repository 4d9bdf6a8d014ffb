"""What a slash command is, and what it may ask of the front that runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from edgellm.errors import EdgeLLMError
from tui.core.desk import Desk

_ALSO = {"exit": "quit", "bye": "quit", "new": "clear", "models": "model", "settings": "set"}
"""What people type who come from other programs."""

Problem = EdgeLLMError
"""What a command raises that cannot be run: one line, which says what to do instead."""


class Front(Protocol):
    """The screen, or the lines of `--plain`."""

    desk: Desk

    def say(self, text: str, severity: str = "information") -> None:
        """Show a line, or several."""

    def attach(self, name: str, text: str) -> None:
        """Put a file beside what is typed: it is sent with the next message."""

    def edit(self, message: int) -> None:
        """Let the person change an earlier message of theirs."""

    def show(self, view: str) -> None:
        """Open one of `models settings chats inspector stats log help`."""

    def leave(self) -> None:
        """End the program."""


@dataclass(frozen=True, slots=True)
class Command:
    """`/name argument`: what it takes, one line of help, and what it does with the argument."""

    name: str
    argument: str
    help: str
    run: Callable[[Front, str], None]


def run(commands: Mapping[str, Command], front: Front, line: str) -> None:
    """Run a line that begins with a slash. Raises EdgeLLMError for what cannot be done."""
    name, _, argument = line.removeprefix("/").partition(" ")
    name = _ALSO.get(name.casefold(), name)
    if not (command := commands.get(name.casefold())):
        near = get_close_matches(name.casefold(), commands, n=1, cutoff=0.5)
        advice = f"did you mean /{near[0]}?" if near else f"/help lists all, and //{name} sends it as a message"
        raise Problem(f"there is no command /{name}; {advice}")
    command.run(front, argument.strip())
