"""A model file that calls a command of the user in the chat, and goes on in another run of the program."""

from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from support.chat_tools import PRINT, call, write_commands
from support.model_file import ModelFile
from support.tool_templates import HERMES
from tui.core.controller import ChatController
from tui.core.edge_backend import EdgeBackend
from tui.core.events import Event, Inspected, ModelOpened, Notice, ReplyEnded
from tui.core.store import Store
from tui.core.tool_question import Answer

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
ROME = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
RESULT = "Rome is sunny\nwind: 3\n"


class RealChat:
    """A chat controller with the real engine."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.events: Queue[Event] = Queue()
        self.controller = ChatController(Store(folder / "chats.db"), EdgeBackend(), self.events.put)
        self.controller.model.open(str(model))
        self.until(ModelOpened)

    def until(self, kind: type[Event]) -> Any:
        while True:
            event = self.events.get(timeout=60)
            self.controller.on_event(event)
            assert not isinstance(event, Notice) or event.severity != "error", event
            if isinstance(event, kind):
                return event

    def say(self, text: str) -> ReplyEnded:
        self.controller.sender.send(text)
        ended: ReplyEnded = self.until(ReplyEnded)
        return ended

    def prompt(self) -> str:
        self.controller.status.inspect()
        return str(self.until(Inspected).inspection.text)


@pytest.fixture
def written(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """A file, and the list of the replies that it writes: their tokens take the place of those drawn."""
    from edgellm import Model

    file = model_file(**SIZES, tokenizer="calls hermes", chat_template=HERMES, context_length=4096)
    replies, tokens = list[str](), list[int]()
    with Model.open(file, threads=1) as model:
        tokenizer = model.tokenizer

    def draw(*_: Any) -> int:
        if not tokens:
            tokens.extend([*tokenizer.encode(replies.pop(0), parse_special=True), tokenizer.eos_id or 0])
        return tokens.pop(0)

    monkeypatch.setattr("edgellm.generate.token_chooser.TokenChooser._draw", draw)
    monkeypatch.setattr("edgellm.guides.opened.OpenedGuide.forced", lambda _: [])  # forced tokens are not drawn
    return file, replies


def test_a_call_of_a_model_runs_and_its_chat_goes_on_later(tmp_path: Path, written: tuple[Path, list[str]]) -> None:
    file, replies = written
    replies += [f"Let me see.\n{ROME}", "It is sunny.", "As I said."]
    chat = RealChat(tmp_path, file)
    chat.controller.tools.use_commands(write_commands(tmp_path / "tools.json", weather=PRINT))
    assert chat.say("How is it?").finish_reason == "tool_calls"
    question = chat.controller.calls.question
    assert question and question.call == call("weather", city="Rome")
    chat.controller.calls.answer(question, Answer.ONCE)
    assert chat.until(ReplyEnded).text == "It is sunny."
    path = chat.controller.conversation.path
    assert [(m.role, m.text) for m in path[1:]] == [
        ("assistant", "Let me see."),
        ("tool", RESULT),
        ("assistant", "It is sunny."),
    ]
    prompt = chat.prompt()
    assert '"name": "weather"' in prompt.partition("user")[0]  # the definitions
    assert f"<|im_start|>assistant\nLet me see.\n{ROME}<|im_end|>" in prompt
    assert f"<tool_response>\n{RESULT}\n</tool_response>" in prompt
    number = chat.controller.conversation.chat.id
    chat.controller.close()

    again = RealChat(tmp_path, file)
    again.controller.chats.open(number, own_model=False)
    assert again.controller.conversation.path == path
    assert again.say("Sure?").text == "As I said."
    assert f"<tool_response>\n{RESULT}\n</tool_response>" in again.prompt()
    again.controller.close()


def test_replies_follow_a_schema_and_say_what_it_excluded(tmp_path: Path, model_file: ModelFile) -> None:
    file = model_file(**SIZES, tokenizer="calls hermes", chat_template=HERMES, context_length=4096)
    chat = RealChat(tmp_path, file)
    chat.controller.tools.use_schema('{"enum": ["red", "blue"]}', "/schema", {})
    ended = chat.say("Which?")
    assert ended.text in ('"red"', '"blue"') and ended.finish_reason == "eog"
    guided = chat.controller.status.activity().live
    assert guided and guided.stats.guided and 0 < guided.stats.guided.mean <= 1
    chat.controller.close()
