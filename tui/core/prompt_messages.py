"""The messages of a chat as the model gets them."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from edgellm.tools.calls import ToolCall
from tui.core.call_results import call_results
from tui.core.store import SavedChat
from tui.core.tree import Message

NO_RESULT = "error: the user stopped this call, and it has no result"
"""What the model is told of a call that was stopped before it ran or while it ran."""
STOPPED = "(The user stopped this reply.)"
"""The reply after calls and results, where the user wrote the next message instead of waiting for one."""


class Turn(NamedTuple):
    """A message as the model gets it. `source` is None for one that is not in the chat."""

    source: Message | None
    message: dict[str, Any]


def prompt_messages(chat: SavedChat, to: int | None = None) -> list[dict[str, Any]]:
    """The messages up to `to`, or to the end of the path, as `edgellm.chat.Chat.reply` takes them.

    The system prompt is the first. Each call of a tool has a result, and roles alternate as templates want it.
    """
    system = [{"role": "system", "content": chat.system}] if chat.system else []
    return system + [turn.message for turn in prompt_turns(chat, to)]


def prompt_turns(chat: SavedChat, to: int | None = None) -> Iterator[Turn]:
    """The messages without the system prompt. Calls without a result get NO_RESULT, calls without a reply STOPPED."""
    replied = _replied(chat, to)
    unanswered = call_results(replied).unanswered
    waiting: list[ToolCall] = []
    in_calls = False
    for message in replied:
        if message.role != "tool":
            yield from _no_results(waiting)
            waiting = unanswered[message.id]
            if in_calls and message.role == "user":
                yield Turn(None, {"role": "assistant", "content": STOPPED})
            in_calls = bool(message.tool_calls)
        yield Turn(message, _as_sent(message))
    yield from _no_results(waiting)


def _replied(chat: SavedChat, to: int | None) -> list[Message]:
    """The messages up to `to`, without empty replies and the messages before them: templates want alternating roles."""
    turns: list[Message] = []
    for message in chat.tree.path(to):
        if message.role != "assistant" or message.text or message.tool_calls:
            turns.append(message)
        elif turns and turns[-1].role == "user":
            turns.pop()
    return turns


def _no_results(calls: Iterable[ToolCall]) -> Iterator[Turn]:
    results = (Message(0, None, "tool", NO_RESULT, 0.0, name=call.name, tool_call_id=call.id) for call in calls)
    return (Turn(None, _as_sent(result)) for result in results)


def _as_sent(message: Message) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        sent |= {"content": message.text or None, "tool_calls": [call.as_message() for call in message.tool_calls]}
    if message.role == "tool":
        about = {"tool_call_id": message.tool_call_id, "name": message.name}
        sent |= {key: value for key, value in about.items() if value is not None}
    return sent
