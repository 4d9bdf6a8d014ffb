"""Values of settings as text: what the user types, and what is shown."""

import json
import os
import re
from pathlib import Path
from typing import Any

import edgellm

_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\\\": "\\"}
_ESCAPED = re.compile(r"\\[ntr\\]")
_RAW = re.compile(r"[\n\t\r\\]")

AUTOMATIC = "automatic"
"""What a setting is shown as whose value is chosen by edgellm, or by someone else, where it is not set."""

_NONE_IF_UNSET = {"draft": "but those from the text"}
"""Options that choose nothing by themselves where they are not set, and what there is all the same."""


def unset_text(name: str) -> tuple[str, str]:
    """What a setting without a value or a default is shown as, and a note to it, which may be empty."""
    return ("none", _NONE_IF_UNSET[name]) if name in _NONE_IF_UNSET else (AUTOMATIC, "")


def number_or_text(text: str) -> Any:
    """The text as a number, if it is one, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_stops(text: str) -> Any:
    """Stop strings: a JSON list, or one string with the escapes `\\n`, `\\t`, `\\r` and `\\\\`."""
    if text.startswith("["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return [_ESCAPED.sub(lambda match: _ESCAPES[match.group()], text)]


def templates() -> list[str]:
    """The names of the built-in templates."""
    return sorted(path.stem for path in Path(edgellm.__file__).parent.glob("text/templates/*.jinja"))


def read_template(text: str) -> str:
    """The name of a built-in template, or the absolute path of a file."""
    is_path = "." in text or any(separator in text for separator in ("/", os.sep))
    return os.path.abspath(os.path.expanduser(text)) if is_path else text  # noqa: PTH100, PTH111 (those may raise)


def value_text(value: Any) -> str:
    """A value as the user would type it; empty for None."""
    if isinstance(value, tuple | list):
        return _stops_as_typed(value)
    return "" if value is None else str(value)


def _stops_as_typed(stops: tuple[str, ...] | list[str]) -> str:
    if len(stops) == 1 and not stops[0].startswith("["):
        names = {raw: typed for typed, raw in _ESCAPES.items()}
        return _RAW.sub(lambda match: names[match.group()], stops[0])
    return json.dumps(list(stops), ensure_ascii=False) if stops else ""
