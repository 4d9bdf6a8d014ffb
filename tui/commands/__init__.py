"""The slash commands, the same in the screen and in `--plain`."""

from tui.commands.command import Command, Front, run
from tui.commands.registry import COMMANDS

__all__ = ["COMMANDS", "Command", "Front", "run"]
