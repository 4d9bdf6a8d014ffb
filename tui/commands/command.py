"""Slash commands: how they are declared and run, and what they call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from tui.core.controller import ChatController
from tui.core.settings import is_setting

_ALIASES = {
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
"""Names that other programs have for the commands."""

OTHER_NAMES = "Names of other programs work too, such as /retry, /attach and /bye; /temp 0.7 is /set temp 0.7."
"""The help on `_ALIASES`, and on settings that are typed as commands."""

_INSTEAD = {
    "show": "/set shows the settings, /system the system prompt, /stats the figures",
    "undo": "/earlier shows the earlier version, /edit changes your last message",
    "copy": "Alt+Y copies the last message, Alt+C the last code",
    "delete": "in the list of chats (/chats) Del deletes one",
}
"""Commands of other programs that do not exist here, and what to use instead."""

_MIN_SIMILARITY = 0.7
"""Of a suggested command: a typo is this similar, another word seldom."""


class Frontend(Protocol):
    """What a command may call: the screen or `--plain` implements it."""

    controller: ChatController

    def say(self, text: str, severity: str = "information") -> None:
        """Show a line, or several."""

    def attach(self, name: str, text: str) -> None:
        """Attach a file to the next message."""

    def edit(self, message: int) -> None:
        """Let the user edit an earlier message, or a reply, which the model then continues."""

    def point_at(self, message: int, words: str) -> None:
        """Show the place in a message that has one of the words."""

    def show(self, view: str) -> None:
        """Open a view: one of `models settings chats inspector stats log help`."""

    def leave(self) -> None:
        """End the program."""


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """`/name argument`. `argument` names it for the help; `run` gets it as typed. `run` raises EdgeLLMError."""

    name: str
    argument: str
    help: str
    run: Callable[[Frontend, str], None]


def run_command(commands: Mapping[str, SlashCommand], frontend: Frontend, line: str) -> None:
    """Run a line that begins with a slash. Raises EdgeLLMError if there is no such command or it fails."""
    name, _, argument = line.removeprefix("/").partition(" ")
    name = _ALIASES.get(name.casefold(), name)
    if not name:
        raise EdgeLLMError("the name of a command follows the slash at once, as in /help, which lists all")
    if command := commands.get(name.casefold()):
        if argument.strip() and not command.argument:
            raise EdgeLLMError(f"/{command.name} takes no argument")
        command.run(frontend, argument.strip())
    elif is_setting(name):
        commands["set"].run(frontend, f"{name} {argument.strip()}")
    else:
        raise EdgeLLMError(f"there is no command /{printable(name)}; {_advice(name, commands)}")


def _advice(name: str, commands: Mapping[str, SlashCommand]) -> str:
    if advice := _INSTEAD.get(name.casefold()):
        return advice
    near = get_close_matches(name.casefold(), commands, n=1, cutoff=_MIN_SIMILARITY)
    return f"did you mean /{near[0]}?" if near else f"/help lists all, and //{printable(name)} sends it as a message"
