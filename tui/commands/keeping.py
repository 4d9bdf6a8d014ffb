"""Commands for chats that are kept."""

from tui.commands.command import Command, Front, Problem
from tui.core.files import text_of, typed_path

_DIGITS = 18
"""Of a number that the store can have."""


def _save(front: Front, title: str) -> None:
    if not front.desk.chat.id:
        raise Problem("there is nothing yet to save; whatever is said is saved at once")
    if title:
        front.desk.rename_chat(front.desk.chat.id, title)
    front.say(f"saved as {front.desk.chat.title!r}; every word is, as it comes")


def _export(front: Front, name: str) -> None:
    if not name:
        raise Problem("give a file: /export chat.md, or /export chat.json with every version in it")
    path = typed_path(name)
    front.desk.export(path)
    front.say(f"written to {path}")


def _import(front: Front, name: str) -> None:
    if not name:
        raise Problem("give a file that /export wrote: /import chat.json")
    front.desk.import_chat(text_of(name, "give a file that /export wrote"))


def _chats(front: Front, number: str) -> None:
    if not number:
        front.show("chats")
    elif number.isascii() and number.isdigit() and len(number) <= _DIGITS:
        front.desk.open_chat(int(number))
    else:
        raise Problem("give the number of a chat, as /chats shows it")


COMMANDS = (
    Command("chats", "[NUMBER]", "the chats that are kept, or go on with one", _chats),
    Command("save", "[TITLE]", "give this chat a title; all is saved anyway", _save),
    Command("export", "FILE.md|FILE.json", "write this chat to a file", _export),
    Command("import", "FILE.json", "bring back a chat that was exported", _import),
)
