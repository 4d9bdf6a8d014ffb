"""Commands for chats that are kept."""

from edgellm.fmt import counted
from tui.commands.command import Command, Front, Problem
from tui.core.files import text_of, typed_path

_DIGITS = 18
"""Of a number that the store can have."""


def _save(front: Front, title: str) -> None:
    settings = front.desk.tuning.keep()
    if settings:
        front.say("the settings of this model are saved")
    if not front.desk.chat.id:
        if settings and not title:
            return
        raise Problem("there is nothing yet to save; whatever is said is saved at once")
    if title:
        front.desk.rename_chat(front.desk.chat.id, title)
    front.say(f"saved as '{front.desk.chat.title}'; every word is, as it comes")


def _export(front: Front, name: str) -> None:
    if not name:
        raise Problem("give a file: /export chat.md, or /export chat.json with every version in it")
    path = typed_path(name)
    front.desk.export(path)
    front.say(f"written to {path}")


def _import(front: Front, name: str) -> None:
    if not name:
        raise Problem("give a file that /export wrote, or ChatGPT's conversations.json: /import chat.json")
    count = front.desk.import_chats(text_of(name, "split it into several files"))
    front.say(f"{counted(count, 'chat')} came, and the last one is open" if count > 1 else "the chat is open")


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
    Command("import", "FILE.json", "bring back a chat that was exported, also from ChatGPT", _import),
)
