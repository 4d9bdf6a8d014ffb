"""Which tools a chat offers, and chats with calls that are opened again."""

from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from edgellm import EdgeLLMError
from support.chat_fakes import FakeModel
from support.headless_chat import HeadlessFrontend
from support.mcp_scripts import servers_file
from support.tool_chat import CALL, RESULT, ROME, TOOL, answer, asked, opened, sent
from tui.core.events import ModelOpened, Notice, ReplyEnded, ServersOpened
from tui.core.tool_question import Answer


def test_a_model_whose_template_shows_no_calls_gets_no_tools(tmp_path: Path) -> None:
    frontend = opened(tmp_path, ["Hello."], calls=False)
    with pytest.raises(EdgeLLMError, match="the chat template of fake shows no calls of tools"):
        frontend.controller.model.check_calls()
    frontend.say("?")
    assert "tools" not in frontend.backend.model.options[-1]
    frontend.controller.model.reopen()
    frontend.until(ModelOpened)
    frontend.until(Notice)
    assert "the chat template of fake shows no calls: replies get no tools" in frontend.notices[-1]


def test_a_template_that_is_set_is_the_one_that_shows_no_calls(tmp_path: Path) -> None:
    frontend = opened(tmp_path, calls=False)
    frontend.controller.model.set("template", "llama3")
    frontend.until(ModelOpened)
    frontend.until(Notice)
    expected = "the chat template llama3, which is set, shows no calls"
    assert frontend.notices[-1].startswith(f"{expected}: ")
    with pytest.raises(EdgeLLMError) as refused:
        frontend.controller.model.check_calls()
    assert str(refused.value).startswith(f"{expected} of tools: choose a model whose template does")


def test_a_message_sent_while_servers_start_says_that_its_reply_gets_none_of_their_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = Event()

    def open_slowly(path: Path, cancelled: Event, stop_start: Event) -> SimpleNamespace:
        started.wait(20)
        return SimpleNamespace(tools={}, names=["slow"], problems=[], close=lambda: None)

    monkeypatch.setattr("edgellm.mcp.open_servers", open_slowly)
    frontend = opened(tmp_path, ["Early."], ["Late."])
    frontend.controller.tools.open_servers(servers_file(tmp_path))
    frontend.say("?")
    assert frontend.notices[-1].startswith("the MCP servers are still being started: this reply gets none")
    started.set()
    frontend.until(ServersOpened)
    before = len(frontend.notices)
    frontend.say("And now?")
    assert frontend.notices[before:] == ["MCP servers slow: 0 tools"]


def test_the_start_of_servers_is_stopped_with_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, closed = Event(), Event()

    def open_slowly(path: Path, cancelled: Event, stop_start: Event) -> SimpleNamespace:
        started.wait(20)
        return SimpleNamespace(tools={}, names=["slow"], problems=[], close=closed.set)

    monkeypatch.setattr("edgellm.mcp.open_servers", open_slowly)
    frontend = opened(tmp_path)
    frontend.controller.tools.open_servers(servers_file(tmp_path))
    assert frontend.controller.works_in_background
    frontend.controller.stop()
    assert not frontend.controller.works_in_background
    frontend.until(Notice)
    assert frontend.notices == ["the start of the MCP servers was stopped"]
    started.set()
    assert closed.wait(20)  # servers that come later end at once
    frontend.until(ServersOpened)
    assert not frontend.controller.tools.servers.names


def test_a_chat_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [ROME], ["Sunny."])
    frontend.say("Rome?")
    answer(frontend, Answer.ONCE)
    frontend.until(ReplyEnded)
    path, chat = frontend.controller.conversation.path, frontend.controller.conversation.chat.id
    frontend.controller.close()
    again = HeadlessFrontend(tmp_path / "chats.db", FakeModel())
    again.open()
    again.controller.chats.open(chat)
    assert again.controller.conversation.path == path
    again.say("And now?")
    assert sent(again)[1:] == [
        {**CALL, "content": None},
        {**TOOL, "content": RESULT},
        {"role": "assistant", "content": "Sunny."},
        {"role": "user", "content": "And now?"},
    ]


def test_a_program_that_was_killed_in_a_call_leaves_a_valid_chat(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [ROME])
    frontend.say("Rome?")
    asked(frontend)
    again = HeadlessFrontend(tmp_path / "chats.db", FakeModel())  # the first is still open: nothing was told to end
    again.open()
    again.controller.chats.open(frontend.controller.conversation.chat.id)
    assert again.controller.calls.question is None
    again.say("And?")
    assert [message["role"] for message in sent(again)] == ["user", "assistant", "tool", "assistant", "user"]
