"""The slash commands, the same in the screen and in `--plain`."""

from collections.abc import Mapping

from tui.commands import conversation, keeping, looking, model
from tui.commands.command import Command, Front, Problem, run

COMMANDS: Mapping[str, Command] = {
    command.name: command for command in (*model.COMMANDS, *conversation.COMMANDS, *keeping.COMMANDS, *looking.COMMANDS)
}
"""By name, in the order in which /help shows them."""

__all__ = ["COMMANDS", "Command", "Front", "Problem", "run"]
