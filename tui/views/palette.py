"""The command palette: everything one can do, found by typing."""

import sys
from collections.abc import Callable, Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.chat.screen import ChatScreen
from tui.commands import COMMANDS

_Entry = tuple[str, str, Callable[[], object]]

_SAID = 0.5
"""The score of words that are not in the name: below that of most names they might be in."""


class PaletteCommands(Provider):
    """Where the conversation is on top, the slash commands; everywhere, the keys that do something there."""

    async def discover(self) -> Hits:
        """Everything, before anything is typed."""
        for name, about, act in self._entries():
            yield DiscoveryHit(name, act, help=about)

    async def search(self, query: str) -> Hits:
        """What has a name like that, or all of the words in what is said of it."""
        matcher, words = self.matcher(query), query.casefold().split()
        for name, about, act in self._entries():
            said = _SAID if all(word in about.casefold() for word in words) else 0
            if score := max(matcher.match(name), said):
                yield Hit(score, matcher.highlight(name), act, help=about)

    def _entries(self) -> Iterator[_Entry]:
        if isinstance(self.screen, ChatScreen):
            yield from self._commands(self.screen)
        yield from self._keys()
        if sys.platform != "win32":
            yield "Suspend", "Back to the shell, until you type fg there", self.app.action_suspend_process
        yield "Theme", "Other colours, for this and all times to come", self.app.action_change_theme

    def _commands(self, chat: ChatScreen) -> Iterator[_Entry]:
        """Those that need an argument are begun in the input box."""
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
