"""The argv of a command, with placeholders for arguments.

`{name}` stands for an argument, `{{name}}` for the text `{name}`; any other brace is itself. Arguments come from a
model, so they are put into items of an argv as they are, and no shell reads them. A value that is no text is JSON.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgellm.errors import OptionError
from edgellm.fmt import printable

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
PLACEHOLDER = re.compile(rf"\{{\{{(?P<literal>{_NAME})\}}\}}|\{{(?P<name>{_NAME})\}}")
_OPTIONS_END = "--"
_IMPOSSIBLE = re.compile("[\\0\ud800-\udfff]")


def names_in(*items: str) -> list[str]:
    """The names of arguments that items have placeholders for, in order, each once."""
    found = [each["name"] for item in items for each in PLACEHOLDER.finditer(item) if each["name"]]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class ArgvTemplate:
    """The items of an argv with placeholders. `tool` is the tool's name, for messages."""

    tool: str
    items: Sequence[str]

    def filled(self, arguments: Mapping[str, Any]) -> list[str]:
        """The argv for the arguments of a call.

        Without its argument a placeholder is empty; an item that is nothing else is left out. Raises OptionError for a
        text that no argv has, and for one that the command would take as an option: an argument in front of an item
        that begins with "-", unless it is a number, or the template has an item "--" before it.
        """
        argv, options_end = list[str](), False
        for item in self.items:
            options_end = options_end or item == _OPTIONS_END
            if (made := self._filled_item(item, arguments)) is None:
                continue
            if not options_end and made.startswith("-") and not item.startswith("-"):
                self._check_number(item, arguments, made)
            argv.append(made)
        return argv

    def _filled_item(self, item: str, arguments: Mapping[str, Any]) -> str | None:
        found = PLACEHOLDER.fullmatch(item)
        if found and found["name"] and arguments.get(found["name"]) is None:
            return None
        return PLACEHOLDER.sub(lambda each: self._value(each, arguments), item)

    def _value(self, found: re.Match[str], arguments: Mapping[str, Any]) -> str:
        if found["literal"]:
            return f"{{{found['literal']}}}"
        value = arguments.get(found["name"], "")
        text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if _IMPOSSIBLE.search(text):
            self._refuse(found["name"], "has a character that no command takes: U+0000, or half of a surrogate pair")
        return text

    def _check_number(self, item: str, arguments: Mapping[str, Any], made: str) -> None:
        """Raise OptionError unless an item with "-" in front is a number, such as -5."""
        first = names_in(item)[0]
        if isinstance(arguments.get(first), str) or not made[1:2].isdigit():
            self._refuse(first, 'begins with "-", so the command would take it as an option; give another value')

    def _refuse(self, name: str, problem: str) -> None:
        raise OptionError(f"tool {self.tool}: argument {printable(name)} {problem}")
