"""What a slash at the beginning means: one line of it is a command, two begin a message with one slash.

A first word with another slash in it is no command but a path, as in `/etc/hosts is what?`: that is a message.
"""

import re

from tui.composer.attachment import paragraphs

_COMMAND = re.compile(r"/(?=[^/\n])[^/\s]*(?:[^\S\n].*)?")
_SLASHES = re.compile(r"//.*")


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
    text = message.rstrip()
    return "/" + message if text == "/" or command_of(text) or _SLASHES.fullmatch(text) else message


def typed_with(typed: str, *messages: str) -> str:
    """What has to be typed for messages and, below them, what is typed."""
    return typed_for(paragraphs(*messages, message_of(typed))) if any(messages) else typed
