"""A chat without a screen whose model calls two commands: its questions, their answers, and its prompts."""

from pathlib import Path
from typing import Any

from edgellm.text.conversation import check_messages
from support.chat_fakes import FakeModel
from support.chat_tools import PRINT, WAIT, call, write_commands
from support.headless_chat import HeadlessFrontend
from tui.core.events import CallsChanged
from tui.core.tool_question import Answer, Question

ROME = call("weather", city="Rome")


def opened(folder: Path, *replies: list[Any], **model: Any) -> HeadlessFrontend:
    """A chat whose model gives these replies, with a file of commands in use."""
    frontend = HeadlessFrontend(folder / "chats.db", FakeModel(replies=list(replies), **model))
    frontend.open()
    commands = write_commands(folder / "tools.json", weather=PRINT, wait=WAIT)
    frontend.controller.tools.use_commands(commands)
    return frontend


def asked(frontend: HeadlessFrontend) -> Question:
    """The question that is asked now."""
    while not (question := frontend.controller.calls.question):
        frontend.until(CallsChanged)
    return question


def answer(frontend: HeadlessFrontend, given: Answer) -> None:
    frontend.controller.calls.answer(asked(frontend), given)


def roles(frontend: HeadlessFrontend) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in frontend.controller.conversation.path]


def sent(frontend: HeadlessFrontend) -> list[dict[str, Any]]:
    """The messages of the last prompt, which the library takes."""
    messages = [dict(message) for message in frontend.backend.model.asked[-1]]
    check_messages(messages)
    return messages


RESULT = "Rome is sunny\nwind: 3\n"
CALL = {"role": "assistant", "content": "Let me see.", "tool_calls": [ROME.as_message()]}
TOOL = {"role": "tool", "tool_call_id": "call00000", "name": "weather"}
