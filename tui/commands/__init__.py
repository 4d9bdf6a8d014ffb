"""The slash commands, the same in the screen and in `--plain`."""

from collections.abc import Mapping

from tui.commands import chat_commands, message_commands, model_commands, tool_commands, view_commands
from tui.commands.command import OTHER_NAMES, Frontend, SlashCommand, run_command

_ALL = (
    *model_commands.COMMANDS,
    *tool_commands.COMMANDS,
    *message_commands.COMMANDS,
    *chat_commands.COMMANDS,
    *view_commands.COMMANDS,
)

COMMANDS: Mapping[str, SlashCommand] = {command.name: command for command in _ALL}
"""Every command by its name, in the order in which /help shows them."""

__all__ = ["COMMANDS", "OTHER_NAMES", "Frontend", "SlashCommand", "run_command"]
