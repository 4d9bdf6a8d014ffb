"""Commands for the model and its settings."""

from tui.commands.command import Frontend, SlashCommand
from tui.core.files import typed_path
from tui.core.settings import SETTINGS, setting


def _model(frontend: Frontend, name: str) -> None:
    if name:
        frontend.controller.model.open(str(typed_path(name)) if name.startswith("~") else name)
    else:
        frontend.show("models")


def _system(frontend: Frontend, text: str) -> None:
    if text:
        frontend.controller.set_system("" if text == "none" else text)
    frontend.say(f"system prompt: {frontend.controller.conversation.chat.system or 'none'}")


def _set(frontend: Frontend, argument: str) -> None:
    name, _, value = argument.removeprefix("parameter ").lstrip().partition(" ")
    if not name:
        frontend.show("settings")
    elif name == "system":
        _system(frontend, value.strip())
    else:
        _set_or_show(frontend, name, value.strip())


def _set_or_show(frontend: Frontend, name: str, value: str) -> None:
    model, notes = frontend.controller.model, ""
    if value:
        model.set(name, "" if value == "default" else value)
        notes = _reopening(frontend, setting(name).loads)
        notes += "" if frontend.controller.settings.autosave else "; for this run, /save keeps it"
    frontend.say(f"{setting(name).name}: {model.value(name)}{notes}")


def _reset(frontend: Frontend, _: str) -> None:
    loads = bool(frontend.controller.settings.for_loading())
    frontend.controller.model.reset()
    frontend.say(f"all settings of this model have their defaults{_reopening(frontend, loads)}")


def _reopening(frontend: Frontend, loads: bool) -> str:
    return "; the model is reloaded" if loads and frontend.controller.model.name else ""


def _think(frontend: Frontend, effort: str) -> None:
    if effort:
        frontend.controller.model.set_effort(effort)
        frontend.say(f"the model thinks with {effort} effort")
        return
    thinks = frontend.controller.model.switch_thinking()
    frontend.say("the model thinks before it replies" if thinks else "the model replies without thinking")


_SOME = ", ".join(setting.name for setting in SETTINGS[:3])

COMMANDS = (
    SlashCommand("model", "[NAME]", "choose a model; the chat goes on with it", _model),
    SlashCommand("system", "[TEXT|none]", "show or set the system prompt of this chat", _system),
    SlashCommand("set", "[NAME [VALUE|default]]", f"settings of the model: {_SOME}, ...", _set),
    SlashCommand("reset", "", "set all settings of this model to their defaults", _reset),
    SlashCommand("think", "[EFFORT]", "switch thinking before a reply on or off, or set its effort", _think),
)
