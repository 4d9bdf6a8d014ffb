"""What a slash at the beginning means: one line of it is a command, two begin a message with one slash."""

import re

_COMMAND = re.compile(r"/[^/\n].*")
_SLASHES = re.compile(r"//.*")
_ONE_LINE = re.compile(r"/.*")


def command_of(typed: str) -> str:
    """The command line that is typed, or nothing."""
    line = typed.rstrip()
    return line if _COMMAND.fullmatch(line) else ""


def message_of(typed: str) -> str:
    """The message that is typed."""
    text = typed.rstrip()
    return text[1:] if _SLASHES.fullmatch(text) else text


def typed_for(message: str) -> str:
    """What has to be typed for a message."""
    return "/" + message if _ONE_LINE.fullmatch(message.rstrip()) else message
