"""Commands for chats that are kept."""

from edgellm.errors import EdgeLLMError
from edgellm.fmt import counted
from tui.commands.command import Frontend, SlashCommand
from tui.core.files import text_of, typed_path

_DIGITS = 18
"""Of a number that the store can have."""


def _save(frontend: Frontend, title: str) -> None:
    settings = frontend.desk.tuning.keep()
    if settings:
        frontend.say("the settings of this model are saved")
    if not frontend.desk.chat.id:
        if settings and not title:
            return
        raise EdgeLLMError("there is nothing yet to save; whatever is said is saved at once")
    if title:
        frontend.desk.rename_chat(frontend.desk.chat.id, title)
    frontend.say(f"saved as '{frontend.desk.chat.title}'; every word is, as it comes")


def _export(frontend: Frontend, name: str) -> None:
    if not name:
        raise EdgeLLMError("give a file: /export chat.md, or /export chat.json with every version in it")
    path = typed_path(name)
    frontend.desk.export(path)
    frontend.say(f"written to {path}")


def _import(frontend: Frontend, name: str) -> None:
    if not name:
        raise EdgeLLMError("give a file that /export wrote, or ChatGPT's conversations.json: /import chat.json")
    count = frontend.desk.import_chats(text_of(name, "split it into several files"))
    frontend.say(f"{counted(count, 'chat')} came, and the last one is open" if count > 1 else "the chat is open")


def _chats(frontend: Frontend, number: str) -> None:
    if not number:
        frontend.show("chats")
    elif number.isascii() and number.isdigit() and len(number) <= _DIGITS:
        frontend.desk.open_chat(int(number))
    else:
        raise EdgeLLMError("give the number of a chat, as /chats shows it")


COMMANDS = (
    SlashCommand("chats", "[NUMBER]", "the chats that are kept, or go on with one", _chats),
    SlashCommand("save", "[TITLE]", "give this chat a title; all is saved anyway", _save),
    SlashCommand("export", "FILE.md|FILE.json", "write this chat to a file", _export),
    SlashCommand("import", "FILE.json", "bring back a chat that was exported, also from ChatGPT", _import),
)
