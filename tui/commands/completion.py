"""Completions of commands and their arguments."""

from collections.abc import Iterable, Mapping, Sequence

from tui.commands import COMMANDS
from tui.commands.command import SlashCommand
from tui.commands.tool_commands import OFF
from tui.composer.completion import CompletionItem, word_start
from tui.composer.paths import complete_path
from tui.core.setting_values import templates
from tui.core.settings import SETTINGS


def complete(line: str, cursor: int, models: Iterable[str] = ()) -> Sequence[CompletionItem]:
    """Completions of the word before the cursor; none for a message. `models` are the names of all models."""
    typed = line[:cursor]
    if not typed.startswith("/") or typed.startswith("//") or "\n" in line:
        return []
    name, space, argument = typed[1:].partition(" ")
    if not space:
        return [_command(c) for c in COMMANDS.values() if c.name.startswith(name.casefold())]
    word = argument.rpartition(" ")[2]
    match name.casefold():
        case "file" | "import" | "export":
            return complete_path(typed[word_start(line, cursor) :])
        case "tools" | "mcp" | "schema":
            return [*_beginning(word, {OFF: ""}), *complete_path(typed[word_start(line, cursor) :])]
        case "model":
            return _models(typed[word_start(line, cursor) :], models)
        case "set" if argument.startswith("template "):
            return [*_beginning(word, dict.fromkeys(templates(), "")), *(complete_path(word) if "/" in word else ())]
        case "set" if argument.startswith("draft "):
            named = _beginning(word, dict.fromkeys(("auto", "off", "default"), ""))
            return [*named, *_models(typed[word_start(line, cursor) :], models)]
        case "set" if " " in argument:
            return _beginning(word, dict.fromkeys(_values(argument.split(" ")[0]), ""))
        case "set":
            return _beginning(word, {f"{s.name} ": s.help for s in SETTINGS})
    return []


def _models(word: str, models: Iterable[str]) -> list[CompletionItem]:
    """Names of models, and model files if the word begins like a path."""
    names = (name for name in models if not any(map(str.isspace, name)))
    paths = complete_path(word) if word.startswith(("/", "./", "../", "~")) else []
    files = (path for path in paths if path.text.lower().endswith(("/", ".gguf")))
    return [*_beginning(word, dict.fromkeys(names, "")), *files]


def _command(command: SlashCommand) -> CompletionItem:
    wants = command.argument and not command.argument.startswith("[")
    return CompletionItem(f"/{command.name}{' ' if wants else ''}", command.help, f"/{command.name} {command.argument}")


def _values(name: str) -> list[str]:
    return next(([*s.choices, "default"] for s in SETTINGS if s.name == name), [])


def _beginning(word: str, texts: Mapping[str, str]) -> list[CompletionItem]:
    return [CompletionItem(text, help) for text, help in texts.items() if text.casefold().startswith(word.casefold())]
