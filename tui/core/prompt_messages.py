"""The messages of a chat as the model gets them."""

from tui.core.store import SavedChat
from tui.core.tree import Message


def prompt_messages(chat: SavedChat, to: int | None = None) -> list[dict[str, str]]:
    """`role` and `content` of the messages up to `to`, or to the end of the path; the system prompt is the first."""
    system = [{"role": "system", "content": chat.system}] if chat.system else []
    return system + [{"role": message.role, "content": message.text} for message in replied_turns(chat, to)]


def replied_turns(chat: SavedChat, to: int | None = None) -> list[Message]:
    """The messages up to `to`, without empty replies and the messages before them: templates want alternating roles."""
    turns: list[Message] = []
    for message in chat.tree.path(to):
        if message.role != "assistant" or message.text:
            turns.append(message)
        elif turns and turns[-1].role == "user":
            turns.pop()
    return turns
