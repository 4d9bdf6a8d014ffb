"""Commands for the model and its settings."""

from tui.commands.command import Frontend, SlashCommand
from tui.core.files import typed_path
from tui.core.settings import SETTINGS, setting


def _model(frontend: Frontend, name: str) -> None:
    if name:
        frontend.desk.open_model(str(typed_path(name)) if name.startswith("~") else name)
    else:
        frontend.show("models")


def _system(frontend: Frontend, text: str) -> None:
    if text:
        frontend.desk.set_system("" if text == "none" else text)
    frontend.say(f"system prompt: {frontend.desk.chat.system or 'none'}")


def _set(frontend: Frontend, argument: str) -> None:
    name, _, value = argument.removeprefix("parameter ").lstrip().partition(" ")
    if not name:
        frontend.show("settings")
    elif name == "system":
        _system(frontend, value.strip())
    else:
        loads = False
        if value := value.strip():
            frontend.desk.set(name, "" if value == "default" else value)
            loads = setting(name).loads
        frontend.say(
            f"{setting(name).name}: {frontend.desk.value(name)}{_anew(frontend, loads)}{_for_now(frontend, value)}"
        )


def _reset(frontend: Frontend, _: str) -> None:
    loads = bool(frontend.desk.tuning.for_loading())
    frontend.desk.reset()
    frontend.say(f"all settings of this model are as they come{_anew(frontend, loads)}")


def _for_now(frontend: Frontend, value: str) -> str:
    return "; for this run, /save keeps it" if value and not frontend.desk.tuning.keeps else ""


def _anew(frontend: Frontend, loads: bool) -> str:
    return "; the model opens anew" if loads and frontend.desk.model else ""


def _think(frontend: Frontend, _: str) -> None:
    frontend.say("thinks before it replies" if frontend.desk.switch_thinking() else "replies without thinking")


_SOME = ", ".join(setting.name for setting in SETTINGS[:3])

COMMANDS = (
    SlashCommand("model", "[NAME]", "choose a model, or change it in mid-chat", _model),
    SlashCommand("system", "[TEXT|none]", "show or set the system prompt of this chat", _system),
    SlashCommand("set", "[NAME [VALUE|default]]", f"settings of the model: {_SOME}, ...", _set),
    SlashCommand("reset", "", "all settings of this model as they come", _reset),
    SlashCommand("think", "", "let the model think before it replies, or not", _think),
)
