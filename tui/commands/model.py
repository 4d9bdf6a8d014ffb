"""Commands for the model and its settings."""

from tui.commands.command import Command, Front
from tui.core.files import typed_path
from tui.core.settings import SETTINGS, setting


def _model(front: Front, name: str) -> None:
    if name:
        front.desk.open_model(str(typed_path(name)) if name.startswith("~") else name)
    else:
        front.show("models")


def _system(front: Front, text: str) -> None:
    if text:
        front.desk.set_system("" if text == "none" else text)
    front.say(f"system prompt: {front.desk.chat.system or 'none'}")


def _set(front: Front, argument: str) -> None:
    name, _, value = argument.removeprefix("parameter ").lstrip().partition(" ")
    if not name:
        front.show("settings")
    elif name == "system":
        _system(front, value.strip())
    else:
        loads = False
        if value := value.strip():
            front.desk.set(name, "" if value == "default" else value)
            loads = setting(name).loads
        front.say(f"{setting(name).name}: {front.desk.value(name)}{_anew(front, loads)}{_for_now(front, value)}")


def _reset(front: Front, _: str) -> None:
    loads = bool(front.desk.tuning.for_loading())
    front.desk.reset()
    front.say(f"all settings of this model are as they come{_anew(front, loads)}")


def _for_now(front: Front, value: str) -> str:
    return "; for this run, /save keeps it" if value and not front.desk.tuning.keeps else ""


def _anew(front: Front, loads: bool) -> str:
    return "; the model opens anew" if loads and front.desk.model else ""


def _think(front: Front, _: str) -> None:
    front.say("thinks before it replies" if front.desk.switch_thinking() else "replies without thinking")


_SOME = ", ".join(setting.name for setting in SETTINGS[:3])

COMMANDS = (
    Command("model", "[NAME]", "choose a model, or change it in mid-chat", _model),
    Command("system", "[TEXT|none]", "show or set the system prompt of this chat", _system),
    Command("set", "[NAME [VALUE|default]]", f"settings of the model: {_SOME}, ...", _set),
    Command("reset", "", "all settings of this model as they come", _reset),
    Command("think", "", "let the model think before it replies, or not", _think),
)
