"""Commands for what is said."""

import shlex
from pathlib import Path

from tui.commands.command import Command, Front, Problem
from tui.core.files import text_of


def _file(front: Front, argument: str) -> None:
    try:
        paths = shlex.split(argument)
    except ValueError:
        raise Problem("the quotes do not match; write /file 'a name with spaces.txt'") from None
    if not paths:
        raise Problem("give one file or several: /file notes.md 'a name with spaces.txt'")
    texts = [(path, text_of(path, "give a shorter one")) for path in paths]
    for path, text in texts:
        front.attach(Path(path).name, text)


def _edit(front: Front, text: str) -> None:
    asked = [message.id for message in front.desk.path if message.role == "user"]
    if not asked:
        raise Problem("there is no message of yours yet to edit")
    if text:
        front.desk.edit(asked[-1], text)
    else:
        front.edit(asked[-1])


def _continue(front: Front, text: str) -> None:
    front.desk.go_on(text=text or None)


def _find(front: Front, words: str) -> None:
    if not words:
        raise Problem("give words that a message of this chat has: /find memory")
    found = front.desk.find(words)
    again = "; the same once more goes on to the one before" if found.total > 1 else ""
    front.say(f"{found.number} of {found.total} with these words, the last one first{again}")
    front.point_at(found.message, words)


def _branch(front: Front, _: str) -> None:
    if not front.desk.path:
        raise Problem("there is nothing yet to branch from")
    front.desk.fork(front.desk.path[-1].id)
    front.say("a new chat with all that was said; the other one stays as it is")


COMMANDS = (
    Command("file", "PATH ...", "send text files with the next message", _file),
    Command("edit", "[TEXT]", "say your last message in other words", _edit),
    Command("continue", "[TEXT]", "the model goes on from the end of its reply, or of TEXT in its place", _continue),
    Command("regen", "", "another reply; the one before stays (/earlier)", lambda f, _: f.desk.regenerate()),
    Command("earlier", "", "the version before, of an edit or a reply", lambda f, _: f.desk.walk(None, -1)),
    Command("later", "", "the version after this one", lambda f, _: f.desk.walk(None, 1)),
    Command("find", "WORDS", "the last message with these words; again: the one before", _find),
    Command("branch", "", "go on in a new chat that has all of this one", _branch),
    Command("clear", "", "begin a new chat; this one stays in the list", lambda f, _: f.desk.new_chat()),
)
