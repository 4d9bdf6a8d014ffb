"""All slash commands."""

from collections.abc import Mapping
from pathlib import Path

from edgellm.errors import EdgeLLMError
from tui.commands.command import Command, Front
from tui.core.settings import SETTINGS


def _model(front: Front, name: str) -> None:
    front.desk.open_model(name) if name else front.show("models")


def _system(front: Front, text: str) -> None:
    if not text:
        front.say(f"system prompt: {front.desk.chat.system or 'none; /system TEXT gives one'}")
        return
    front.desk.set_system("" if text == "none" else text)
    front.say("no system prompt" if text == "none" else "system prompt set")


def _set(front: Front, argument: str) -> None:
    name, _, value = argument.partition(" ")
    if not name:
        front.show("settings")
        return
    front.desk.set(name, "" if value.strip() == "default" else value.strip())
    front.say(f"{name} is {value.strip() or 'default'}")


def _export(front: Front, name: str) -> None:
    if not name:
        raise EdgeLLMError("give a file: /export chat.md, or /export chat.json with every version in it")
    path = Path(name).expanduser()
    front.desk.export(path)
    front.say(f"written to {path}")


def _branch(front: Front, argument: str) -> None:
    path = front.desk.path
    if not path:
        raise EdgeLLMError("there is nothing yet to branch from")
    front.desk.fork(path[-1].id)
    front.say("a new chat with all that was said; the other one stays")


def _thinking(front: Front, argument: str) -> None:
    front.say("thinks before it replies" if front.desk.switch_thinking() else "replies without thinking")


_ALL = (
    Command("model", "[NAME]", "another model, in the middle of the chat", _model),
    Command("system", "[TEXT|none]", "show or set the system prompt of this chat", _system),
    Command("set", "[NAME [VALUE]]", f"set {', '.join(s.name for s in SETTINGS[:4])} ...; `default` resets", _set),
    Command("export", "FILE", "write this chat to a .md or .json file", _export),
    Command("regen", "", "another reply to the last message", lambda front, _: front.desk.regenerate()),
    Command("branch", "", "go on in a new chat that has all of this one", _branch),
    Command("think", "", "let the model think before it replies, or not", _thinking),
    Command("inspect", "", "what the model really gets", lambda front, _: front.show("inspector")),
    Command("stats", "", "the figures of the last reply and of the machine", lambda front, _: front.show("stats")),
    Command("clear", "", "begin a new chat", lambda front, _: front.clear()),
    Command("help", "", "keys and commands", lambda front, _: front.show("help")),
    Command("quit", "", "leave; everything is saved", lambda front, _: front.leave()),
)

COMMANDS: Mapping[str, Command] = {command.name: command for command in _ALL}
