"""Commands for what is said."""

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
    asked = [message.id for message in frontend.desk.path if message.role == "user"]
    if not asked:
        raise EdgeLLMError("there is no message of yours yet to edit")
    if text:
        frontend.desk.edit(asked[-1], text)
    else:
        frontend.edit(asked[-1])


def _continue(frontend: Frontend, text: str) -> None:
    frontend.desk.go_on(text=text or None)


def _find(frontend: Frontend, words: str) -> None:
    if not words:
        raise EdgeLLMError("give words that a message of this chat has: /find memory")
    found = frontend.desk.find(words)
    again = "; the same once more goes on to the one before" if found.total > 1 else ""
    frontend.say(f"{found.number} of {found.total} with these words, the last one first{again}")
    frontend.point_at(found.message, words)


def _branch(frontend: Frontend, _: str) -> None:
    if not frontend.desk.path:
        raise EdgeLLMError("there is nothing yet to branch from")
    frontend.desk.fork(frontend.desk.path[-1].id)
    frontend.say("a new chat with all that was said; the other one stays as it is")


COMMANDS = (
    SlashCommand("file", "PATH ...", "send text files with the next message", _file),
    SlashCommand("edit", "[TEXT]", "say your last message in other words", _edit),
    SlashCommand(
        "continue", "[TEXT]", "the model goes on from the end of its reply, or of TEXT in its place", _continue
    ),
    SlashCommand("regen", "", "another reply; the one before stays (/earlier)", lambda f, _: f.desk.regenerate()),
    SlashCommand("earlier", "", "the version before, of an edit or a reply", lambda f, _: f.desk.walk(None, -1)),
    SlashCommand("later", "", "the version after this one", lambda f, _: f.desk.walk(None, 1)),
    SlashCommand("find", "WORDS", "the last message with these words; again: the one before", _find),
    SlashCommand("branch", "", "go on in a new chat that has all of this one", _branch),
    SlashCommand("clear", "", "begin a new chat; this one stays in the list", lambda f, _: f.desk.new_chat()),
)
