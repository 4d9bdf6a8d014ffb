"""The entries of the command palette: commands and keys, found by typing."""

import sys
from collections.abc import Callable, Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.chat.screen import ChatScreen
from tui.commands import COMMANDS

_Entry = tuple[str, str, Callable[[], object]]

_DESCRIPTION_SCORE = 0.5
"""The score of a match in the description: below that of most matches in a name."""


class PaletteCommands(Provider):
    """On the chat screen the slash commands; on all screens the active keys."""

    async def discover(self) -> Hits:
        """All entries, before anything is typed."""
        for name, about, act in self._entries():
            yield DiscoveryHit(name, act, help=about)

    async def search(self, query: str) -> Hits:
        """Entries whose name matches the query, or whose description has all of its words."""
        matcher, words = self.matcher(query), query.casefold().split()
        for name, about, act in self._entries():
            described = _DESCRIPTION_SCORE if all(word in about.casefold() for word in words) else 0
            if score := max(matcher.match(name), described):
                yield Hit(score, matcher.highlight(name), act, help=about)

    def _entries(self) -> Iterator[_Entry]:
        if isinstance(self.screen, ChatScreen):
            yield from self._commands(self.screen)
        yield from self._keys()
        if sys.platform != "win32":
            yield "Suspend", "Back to the shell, until you type fg there", self.app.action_suspend_process
        yield "Theme", "Change the colours, and keep the choice", self.app.action_change_theme

    def _commands(self, chat: ChatScreen) -> Iterator[_Entry]:
        """The slash commands; one that needs an argument is put into the input box."""
        for command in COMMANDS.values():
            line = f"/{command.name}"
            if not command.argument or command.argument.startswith("["):
                yield line, command.help, partial(chat.parts.frontend.run, line)
            else:
                yield f"{line} {command.argument}", command.help, partial(chat.parts.frontend.start_command, f"{line} ")

    def _keys(self) -> Iterator[_Entry]:
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.id and active.enabled:
                act = partial(self.app.run_action, binding.action, active.node)
                yield binding.description, f"The key {self.app.get_key_display(binding)}", act
