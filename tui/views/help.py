"""The help screen: all keys and commands, read from their declarations."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from edgellm.fmt import shown_path
from edgellm.system.folders import config_file
from tui.commands import COMMANDS, OTHER_NAMES
from tui.views.keymap import bindings
from tui.views.lines import Lines
from tui.views.view import View
from tui.views.wrapped import Line

_KEYS, _COMMANDS = 16, 28
"""Columns at the left."""

_EXAMPLE = '"chat.stop" = "f8"'


class HelpScreen(View):
    """The current keys (`keys` of the config file replace declared ones), and the commands."""

    HEADING = "Help"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f1,q", "close", show=False)]

    def __init__(self, keys: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._keys = keys or {}

    def contents(self) -> ComposeResult:
        """One page."""
        yield Lines(lambda width: list(_page(self._keys, width)))


def _page(keys: Mapping[str, str], width: int) -> Iterator[Line]:
    """How to change keys, the keys of the chat, the commands, then the keys of other screens."""
    where = shown_path(config_file())
    how_to = f"To change a key, put its name at the right under [keys] in {where}, as in {_EXAMPLE}"
    yield from (((line, "muted"),) for line in wrap(how_to, width, break_on_hyphens=False))
    yield ()
    places = list(bindings())
    for heading, declared in places[:4]:
        yield from _section(heading, declared, keys, width)
    yield (("Commands", "title"),)
    for command in COMMANDS.values():
        yield from _entry(f"/{command.name} {command.argument}".rstrip(), _COMMANDS, command.help, width)
    yield from (((line, "muted"),) for line in wrap(OTHER_NAMES, width))
    yield ()
    for heading, declared in places[4:]:
        yield from _section(heading, declared, keys, width)


def _section(heading: str, declared: Sequence[Binding], keys: Mapping[str, str], width: int) -> Iterator[Line]:
    yield ((heading, "title"),)
    for meaning, same in groupby(declared, lambda binding: binding.tooltip):
        first, *_, last = together = list(same) * 2
        shown = [keys.get(binding.id or "", binding.key) for binding in (first, last)]
        left, right = shown[0].replace(",", ", "), first.id or ""
        if len(together) > 2:  # such as the keys of nine code blocks
            left, right = f"{left} … {shown[1]}", f"{right} …"
        yield from _entry(left, _KEYS, meaning, width, right)
    yield ()


def _entry(left: str, column: int, text: str, width: int, right: str = "") -> Iterator[Line]:
    """The text at the left and its meaning, in as many lines as needed."""
    first, *more = wrap(text, max(20, width - column - len(right) - 1)) or [""]
    if len(left) >= column:
        yield ((left, "key"),)
        left = ""
    space = " " * (width - column - len(first) - len(right))
    yield ((left.ljust(column), "key"), (first, "plain"), (space + right, "muted"))
    for line in more:
        yield ((" " * column + line, "plain"),)
