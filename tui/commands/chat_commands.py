"""Commands for the stored chats."""

from edgellm.errors import EdgeLLMError
from edgellm.fmt import counted
from tui.commands.command import Frontend, SlashCommand
from tui.core.files import text_of, typed_name, typed_path

_MAX_DIGITS = 18
"""Larger numbers do not fit into an id of SQLite."""


def _save(frontend: Frontend, title: str) -> None:
    controller = frontend.controller
    saved_settings, is_empty = controller.settings.save(), not controller.conversation.chat.id
    if is_empty and not saved_settings:
        raise EdgeLLMError("there is nothing yet to save; every message is saved as soon as it is sent")
    if is_empty and title:
        frontend.say("the settings are saved; the chat gets a title when it has a message")
    elif saved_settings:
        frontend.say("the settings of this model are saved")
    if is_empty:
        return
    if title:
        controller.conversation.rename(title)
    frontend.say(f"saved as '{controller.conversation.chat.title}'; messages and replies are always saved")


def _export(frontend: Frontend, name: str) -> None:
    if not name:
        raise EdgeLLMError("give a file: /export chat.md, or /export chat.json with every version in it")
    path = typed_path(typed_name(name))
    frontend.controller.chats.export(path)
    frontend.say(f"written to {path}")


def _import(frontend: Frontend, name: str) -> None:
    if not name:
        raise EdgeLLMError("give a file that /export wrote, or ChatGPT's conversations.json: /import chat.json")
    count = frontend.controller.chats.import_json(text_of(typed_name(name), "split it into several files"))
    frontend.say(
        f"{counted(count, 'chat')} imported; the last one is open" if count > 1 else "the imported chat is open"
    )


def _chats(frontend: Frontend, number: str) -> None:
    if not number:
        frontend.show("chats")
    elif number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS:
        frontend.controller.chats.open(int(number))
    else:
        raise EdgeLLMError("give the number of a chat, as /chats shows it")


COMMANDS = (
    SlashCommand("chats", "[NUMBER]", "list the saved chats, or open one", _chats),
    SlashCommand("save", "[TITLE]", "save changed settings of the model, and give this chat a title", _save),
    SlashCommand("export", "FILE.md|FILE.json", "write this chat to a file", _export),
    SlashCommand("import", "FILE.json", "import an exported chat, also from ChatGPT", _import),
)
