"""Commands for the messages of the open chat."""

import shlex
from pathlib import Path

from edgellm.errors import EdgeLLMError
from tui.commands.command import Frontend, SlashCommand
from tui.core.files import text_of


def _file(frontend: Frontend, argument: str) -> None:
    try:
        paths = shlex.split(argument)
    except ValueError:
        raise EdgeLLMError("the quotes do not match; write /file 'a name with spaces.txt'") from None
    if not paths:
        raise EdgeLLMError("give one file or several: /file notes.md 'a name with spaces.txt'")
    texts = [(path, text_of(path, "give a shorter one")) for path in paths]
    for path, text in texts:
        frontend.attach(Path(path).name, text)


def _edit(frontend: Frontend, text: str) -> None:
    own = [message.id for message in frontend.controller.conversation.path if message.role == "user"]
    if not own:
        raise EdgeLLMError("there is no message of yours yet to edit")
    if text:
        frontend.controller.sender.edit(own[-1], text)
    else:
        frontend.edit(own[-1])


def _continue(frontend: Frontend, text: str) -> None:
    frontend.controller.sender.continue_reply(text=text or None)


def _regenerate(frontend: Frontend, _: str) -> None:
    frontend.controller.sender.regenerate()


def _earlier(frontend: Frontend, _: str) -> None:
    frontend.controller.navigation.walk(None, -1)


def _later(frontend: Frontend, _: str) -> None:
    frontend.controller.navigation.walk(None, 1)


def _find(frontend: Frontend, words: str) -> None:
    if not words:
        raise EdgeLLMError("give words that a message of this chat has: /find memory")
    hit = frontend.controller.navigation.find(words)
    again = "; the same command shows the one before" if hit.total > 1 else ""
    frontend.say(f"{hit.number} of {hit.total} with these words, the last one first{again}")
    frontend.point_at(hit.message, words)


def _branch(frontend: Frontend, _: str) -> None:
    if (leaf := frontend.controller.conversation.leaf) is None:
        raise EdgeLLMError("there is nothing yet to branch from")
    frontend.controller.chats.fork(leaf)
    frontend.say("this is a new chat with the same messages; the other one stays as it is")


def _clear(frontend: Frontend, _: str) -> None:
    frontend.controller.chats.new()


COMMANDS = (
    SlashCommand("file", "PATH ...", "send text files with the next message", _file),
    SlashCommand("edit", "[TEXT]", "change your last message; the old one stays (/earlier)", _edit),
    SlashCommand(
        "continue", "[TEXT]", "the model goes on from the end of its reply, or of TEXT in its place", _continue
    ),
    SlashCommand("regen", "", "another reply; the old one stays (/earlier)", _regenerate),
    SlashCommand("earlier", "", "the earlier version of a message or reply", _earlier),
    SlashCommand("later", "", "the later version of a message or reply", _later),
    SlashCommand("find", "WORDS", "the last message with these words; again: the one before", _find),
    SlashCommand("branch", "", "go on in a new chat with a copy of these messages", _branch),
    SlashCommand("clear", "", "begin a new chat; this one stays in the list", _clear),
)
