"""What a slash command is, and what it may ask of the frontend that runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from tui.core.controller import ChatController
from tui.core.settings import is_setting

_ALSO = {
    "?": "help",
    "h": "help",
    "exit": "quit",
    "bye": "quit",
    "q": "quit",
    "new": "clear",
    "load": "model",
    "models": "model",
    "list": "model",
    "settings": "set",
    "parameter": "set",
    "retry": "regen",
    "regenerate": "regen",
    "read": "file",
    "attach": "file",
    "search": "find",
    "rename": "save",
    "title": "save",
    "history": "chats",
    "sessions": "chats",
}
"""What people type who come from other programs, and means the same here."""

_ELSEWHERE = {
    "show": "/set shows the settings, /system the system prompt, /stats the figures",
    "undo": "/earlier goes back to the version before, /edit says your last message in other words",
    "copy": "Alt+Y copies the last message, Alt+C the last code",
    "delete": "in the list of chats (/chats) Del deletes one",
}
"""What is done here in other ways."""

_LIKENESS = 0.7
"""Of a command that is suggested: a slip of the pen has it, another word seldom."""


class Frontend(Protocol):
    """The screen, or the lines of `--plain`."""

    desk: ChatController

    def say(self, text: str, severity: str = "information") -> None:
        """Show a line, or several."""

    def attach(self, name: str, text: str) -> None:
        """Put a file beside what is typed: it is sent with the next message."""

    def edit(self, message: int) -> None:
        """Let the person change an earlier message of theirs, or a reply, from whose end the model then goes on."""

    def point_at(self, message: int, words: str) -> None:
        """Show a message, where it has one of the words."""

    def show(self, view: str) -> None:
        """Open one of `models settings chats inspector stats log help`."""

    def leave(self) -> None:
        """End the program."""


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """`/name argument`: what it takes, one line of help, and what it does with the argument."""

    name: str
    argument: str
    help: str
    run: Callable[[Frontend, str], None]


def run_command(commands: Mapping[str, SlashCommand], frontend: Frontend, line: str) -> None:
    """Run a line that begins with a slash. Raises EdgeLLMError for what cannot be done."""
    name, _, argument = line.removeprefix("/").partition(" ")
    name = _ALSO.get(name.casefold(), name)
    if command := commands.get(name.casefold()):
        command.run(frontend, argument.strip())
    elif is_setting(name):
        commands["set"].run(frontend, f"{name} {argument.strip()}")
    else:
        raise EdgeLLMError(f"there is no command /{printable(name)}; {_advice(name, commands)}")


def _advice(name: str, commands: Mapping[str, SlashCommand]) -> str:
    if told := _ELSEWHERE.get(name.casefold()):
        return told
    near = get_close_matches(name.casefold(), commands, n=1, cutoff=_LIKENESS)
    return f"did you mean /{near[0]}?" if near else f"/help lists all, and //{printable(name)} sends it as a message"
