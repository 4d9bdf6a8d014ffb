"""Commands and messages: a line that begins with a slash is a command, one with two slashes a message with one.

If the first word has another slash, it is a path and the text a message, as in `/etc/hosts is what?`.
"""

import re

from tui.composer.attachment import paragraphs

_COMMAND = re.compile(r"/(?![/\n])[^/\s]*(?:[^\S\n].*)?")
_SLASHES = re.compile(r"//.*")


def command_of(typed: str) -> str:
    """The command line in the typed text, "" if it is a message."""
    line = typed.rstrip()
    return line if _COMMAND.fullmatch(line) else ""


def message_of(typed: str) -> str:
    """The message in the typed text."""
    text = typed.rstrip()
    return text[1:] if _SLASHES.fullmatch(text) else text


def typed_for(message: str) -> str:
    """The text to type for a message."""
    text = message.rstrip()
    return "/" + message if command_of(text) or _SLASHES.fullmatch(text) else message


def typed_with(typed: str, *messages: str) -> str:
    """The text to type for messages and, below them, the typed text."""
    return typed_for(paragraphs(*messages, message_of(typed))) if any(messages) else typed
