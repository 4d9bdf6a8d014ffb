"""Commands of the user as tools.

read      the file of commands, checked
template  the argv of a command, with placeholders for arguments; `code` finds placeholders inside of shell scripts
command   a command, and the function of its tool
process   one run: limits of time and output, and the end of the process group
"""

from edgellm.tools.commands.command import argv_of, on_stdin_alone
from edgellm.tools.commands.read import read_commands

__all__ = ["argv_of", "on_stdin_alone", "read_commands"]
