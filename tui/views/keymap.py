"""All key bindings, and the config file that changes them."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import lookup

from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from edgellm.fmt import printable
from edgellm.system.text_input import decode_utf8

PLACES = {
    "Chat": ("tui.chat.screen:ChatScreen",),
    "Input box": ("tui.composer:Composer",),
    "Conversation, once a message is marked": ("tui.transcript:Transcript",),
    "Everywhere": ("tui.app:ChatApp",),
    "List of chats": ("tui.sidebar:Sidebar",),
    "Models": ("tui.models.screen:ModelsScreen", "tui.models.filter:Filter"),
    "Views": ("tui.views.view:View",),
    "Settings": ("tui.views.settings:SettingsScreen", "tui.views.choice_field:ChoiceField"),
    "Prompt": ("tui.views.inspector:InspectorScreen",),
    "Log": ("tui.views.log:LogScreen",),
}
"""Headings of the help screen, and the classes whose own bindings are listed under them."""

_MODIFIERS = {"ctrl", "alt", "shift", "super", "hyper", "meta"}
_KEYS = {key.value.rpartition("+")[2] for key in Keys} | {*KEY_NAME_REPLACEMENTS.values()}


def bindings() -> Iterator[tuple[str, list[Binding]]]:
    """All bindings that have an id, by heading. Imports all screens."""
    for heading, classes in PLACES.items():
        declared = chain.from_iterable(_declared(*name.split(":")) for name in classes)
        yield heading, [binding for binding in declared if isinstance(binding, Binding) and binding.id]


def _declared(module: str, name: str) -> Iterable[BindingType]:
    declared: Iterable[BindingType] = vars(getattr(import_module(module), name)).get("BINDINGS", ())
    return declared


def read_keys(path: Path) -> tuple[dict[str, str], list[str]]:
    """The keys in a config file by binding id, and a line for each problem in it.

    The file is TOML: under `[keys]`, ids of bindings and their keys, as in `"chat.stop" = "escape,f8"`.
    """
    try:
        text = decode_utf8(path.read_bytes())
        import tomllib  # on demand: few users have such a file

        config = tomllib.loads(text)
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError, RecursionError) as error:
        return {}, [f"{path}: {printable(str(error), 200)}; the default keys are used"]
    problems = [f"{path}: {printable(name)} is unknown; only [keys] is read" for name in config if name != "keys"]
    keys: dict[str, str] = {}
    for name, value in _flat(config.get("keys", {})):
        if isinstance(value, str) and all(map(_is_key, value.split(","))):
            keys[name] = value.replace(" ", "")
        else:
            problems.append(f'{path}: {printable(name)} = {printable(repr(value))}: give a key, as in "ctrl+n"')
    return keys, problems


def remarks(keys: Mapping[str, str]) -> Iterator[str]:
    """A line for each unknown binding id, and for each key that two bindings under one heading would share."""
    known = set()
    for _, declared in bindings():
        taken: dict[str, Binding] = {}
        for binding in declared:
            known.add(binding.id)
            for key in keys.get(binding.id or "", binding.key).split(","):
                first = taken.setdefault(key, binding)
                if {first.id, binding.id} & keys.keys() and not _share(key, first, binding):
                    yield f"{key} is the key of {first.id} and of {binding.id}: only one of them will work"
    for name in keys.keys() - known:
        near = get_close_matches(name, sorted(filter(None, known)), n=1)
        yield f"no key is called {printable(name)}; {f'did you mean {near[0]}?' if near else 'see the help screen'}"


def _share(key: str, one: Binding, other: Binding) -> bool:
    """Whether both bindings declare the key: then only one of them is active at a time."""
    return all(key in binding.key.split(",") for binding in (one, other)) or one is other


def _flat(table: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The names and values of a table. Without quotes, TOML reads `chat.stop` as a table `chat`, which is accepted."""
    if not isinstance(table, dict):
        yield prefix.rstrip(".") or "keys", table
        return
    for name, value in table.items():
        yield from _flat(value, f"{prefix}{name}.")


def _is_key(text: str) -> bool:
    """Whether a text is the name of a key: `f8`, `ctrl+n`, `question_mark` or `?`."""
    *modifiers, key = text.strip().split("+")
    return _MODIFIERS.issuperset(modifiers) and (len(key) == 1 or key in _KEYS or _is_character(key))


def _is_character(name: str) -> bool:
    try:
        return bool(lookup(name.replace("_", " ")))
    except KeyError:
        return False
