"""The help screen: all keys and all commands, from where they are declared."""

from collections.abc import Iterator, Mapping
from textwrap import wrap

from textual.app import ComposeResult

from edgellm.gguf.printable import printable
from edgellm.home import config_file
from tui.commands import COMMANDS
from tui.views.keymap import bindings
from tui.views.lines import Lines
from tui.views.view import View
from tui.views.wrapped import Line

_LEFT = 28


class HelpScreen(View):
    """Keys as they are now, with `keys` of the config file over the declared ones, and commands."""

    HEADING = "Help"

    def __init__(self, keys: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._keys = keys or {}

    def contents(self) -> ComposeResult:
        """One page."""
        yield Lines(lambda width: list(_page(self._keys, width)))


def _page(keys: Mapping[str, str], width: int) -> Iterator[Line]:
    yield (("Commands", "title"),)
    for command in COMMANDS.values():
        yield from _entry(f"/{command.name} {command.argument}".rstrip(), command.help, width)
    for heading, declared in bindings():
        yield ()
        yield ((heading, "title"),)
        for binding in declared:
            shown = ", ".join(keys.get(binding.id or "", binding.key).split(","))
            yield from _entry(shown, binding.description, width, binding.id or "")
    yield ()
    yield (("Other keys", "title"),)
    yield from _paragraph("Every key can be another one. Write the name at its right into", width)
    yield ((f"  {printable(str(config_file()), 400)}", "key"),)
    yield from _paragraph(
        "and what it shall be, several with commas between them; it holds from the next start on:", width
    )
    yield (("  [keys]", "key"),)
    yield (('  "chat.stop" = "escape,f8"', "key"),)


def _entry(left: str, text: str, width: int, right: str = "") -> Iterator[Line]:
    """What stands at the left, and what it means, in as many lines as that takes."""
    first, *more = wrap(text, max(20, width - _LEFT - len(right) - 1)) or [""]
    if len(left) >= _LEFT:
        yield ((left, "key"),)
        left = ""
    space = " " * (width - _LEFT - len(first) - len(right))
    yield ((left.ljust(_LEFT), "key"), (first, "plain"), (space + right, "muted"))
    for line in more:
        yield ((" " * _LEFT + line, "plain"),)


def _paragraph(text: str, width: int) -> Iterator[Line]:
    return (((line, "plain"),) for line in wrap(text, width))
