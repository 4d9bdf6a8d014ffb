"""Calls of tools on the screen: the question, its keys, and the folded results."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError
from support.chat_app import Driven, chatting, run
from support.chat_fakes import FakeModel
from support.chat_tools import PRINT, WAIT, call, wait_for, write_commands
from tui.chat import call_question
from tui.core.tree import Message

ROME = call("weather", city="Rome")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys answer a question as soon as it is shown."""
    monkeypatch.setattr(call_question, "_TWICE_S", 0.0)


@asynccontextmanager
async def with_tools(folder: Path, *replies: list[Any]) -> AsyncIterator[Driven]:
    """The chat with a file of commands, which the user names; a command fits into a line, wherever Python is."""
    commands = write_commands(folder / "tools.json", weather=PRINT, wait=WAIT)
    async with chatting(folder, FakeModel(replies=list(replies)), size=(200, 36)) as chat:
        await chat.type(f"/tools {commands}")
        yield chat


async def ask(chat: Driven, text: str = "How is it?") -> None:
    """Send a message whose reply calls a tool; wait for the question."""
    await chat.type(text)
    await chat.until(lambda: "? ─" in chat.shown())


async def until_answered(chat: Driven) -> None:
    await chat.until(lambda: not chat.app.controller.replies.busy)


def messages(chat: Driven) -> list[Message]:
    return chat.app.controller.conversation.path


def test_a_call_is_shown_run_and_folded(tmp_path: Path) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, ["Let me see.", ROME], ["It is sunny."]) as chat:
            assert any("weather(city)" in notice for notice in chat.notices)
            await ask(chat)
            shown = chat.shown()
            assert "Run weather?" in shown and "f5 once · shift+f5 always · esc refuse" in shown.lower()
            assert "-c \"import sys; print(sys.argv[1], 'is sunny'); print('wind: 3')\" Rome" in shown
            assert '▸ calls weather(city="Rome") · waits for your answer' in shown
            await chat.press("f5")
            await until_answered(chat)
            shown = chat.shown()
            assert "Run weather?" not in shown and '▸ called weather(city="Rome") · 2 lines' in shown
            assert "wind: 3" not in shown and "It is sunny." in shown
            await chat.press("alt+up", "alt+up", "t")
            assert "wind: 3" in chat.shown() and '"city": "Rome"' in chat.shown()
            await chat.press("t")
            assert "wind: 3" not in chat.shown()

    run(test())


def test_what_is_typed_answers_no_question(tmp_path: Path) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, [ROME], ["Then not."], ["Later."]) as chat:
            await ask(chat)
            await chat.press(*"yes a n", "enter")
            assert chat.app.controller.calls.question and len(messages(chat)) == 2
            await chat.press("escape")
            await chat.until(lambda: len(messages(chat)) == 6 and not chat.app.controller.replies.busy)
            assert "refused" in chat.shown()
            assert chat.texts == ["How is it?", "", messages(chat)[2].text, "Then not.", "yes a n", "Later."]

    run(test())


def test_a_key_that_is_held_down_answers_one_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, [ROME, call("weather", 1, city="Oslo")], ["Done."]) as chat:
            await ask(chat)
            clock = monotonic()
            monkeypatch.setattr(call_question, "monotonic", lambda: clock)
            monkeypatch.setattr(call_question, "_TWICE_S", 0.5)
            clock += 1
            await chat.press("f5")
            await chat.until(lambda: "Oslo" in chat.shown().partition("Run weather?")[2])
            for _ in range(20):
                clock += 0.1
                await chat.press("f5")
            assert chat.app.controller.calls.question and len(messages(chat)) == 3
            clock += 1
            await chat.press("f5")
            await until_answered(chat)
            assert chat.texts[-2:] == ["Oslo is sunny\nwind: 3\n", "Done."]

    run(test())


@pytest.mark.parametrize("failing", ["add", "add_result"])
def test_a_waiting_message_comes_back_where_no_reply_can_follow_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, [ROME]) as chat:
            await ask(chat)
            await chat.type("later")
            assert chat.composer.text == ""
            monkeypatch.setattr(chat.app.controller.store, failing, full)
            await chat.press("f5")
            await until_answered(chat)
            assert chat.composer.text == "later" and "the disk is full" in chat.notices

    def full(*_: object) -> None:
        raise EdgeLLMError("the disk is full")

    run(test())


def test_nothing_runs_where_the_screen_has_no_line_for_the_question(tmp_path: Path) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, [ROME], ["Then not."]) as chat:
            await ask(chat)
            await chat.pilot.resize_terminal(20, 6)
            await chat.press("f5", "shift+f5")
            assert chat.app.controller.calls.question and not chat.app.controller.tools.allowed
            await chat.press("escape")
            await until_answered(chat)
            assert chat.texts[-1] == "Then not."

    run(test())


def test_a_long_call_can_be_read_to_its_end(tmp_path: Path) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, [call("weather", city="x " * 2000 + "the end")]) as chat:
            await ask(chat)
            await chat.until(lambda: "more" in chat.shown().lower())
            assert "the end" not in chat.shown().partition("Run weather?")[2]
            await chat.press(*["pagedown"] * 10)
            assert "the end" in chat.shown().partition("Run weather?")[2]

    run(test())


def test_escape_stops_a_call_that_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, [call("wait", path=str(tmp_path / "started"))], ["Hello."]) as chat:
            await ask(chat)
            await chat.press("shift+f5")
            wait_for(tmp_path / "started")
            await chat.until(lambda: "Esc stops it" in chat.shown() or "esc stops it" in chat.shown())
            await chat.press("escape")
            assert not chat.app.controller.replies.busy
            await chat.until(lambda: "no result" in chat.shown())
            await chat.say("Leave it.")
            assert chat.texts[-1] == "Hello."

    run(test())


def test_a_question_is_gone_where_another_chat_is_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, [ROME]) as chat:
            await ask(chat)
            await chat.press("ctrl+n")
            assert "Run weather?" not in chat.shown()
            await chat.press("f5")
            assert not messages(chat)

    run(test())


def test_the_status_line_says_how_many_tools_replies_may_call(tmp_path: Path) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, ["Hello."]) as chat:
            assert "2 tools  context" in chat.shown()
            await chat.say("hi")
            assert "2 tools  context" in chat.shown()
            await chat.type("/tools off")
            assert "tools  context" not in chat.shown()

    run(test())


def test_words_in_a_result_are_found_and_unfolded(tmp_path: Path) -> None:
    async def test() -> None:
        async with with_tools(tmp_path, [ROME], ["It is sunny."]) as chat:
            await ask(chat)
            await chat.press("f5")
            await until_answered(chat)
            await chat.type("/find wind")
            assert chat.transcript.selected == messages(chat)[2].id
            assert "wind: 3" in chat.shown()

    run(test())


def test_a_schema_is_an_option_of_replies(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.type('/schema {"type": "integer", "unheard": 1}')
            assert "unheard" in chat.notices[-1]
            await chat.type('/schema {"type": "integer"}')
            assert "schema  context" in chat.shown()
            await chat.say("one")
            assert chat.model.options[-1]["json_schema"] == '{"type": "integer"}'
            (tmp_path / "long.json").write_text(json.dumps({"enum": [f"color {n}" for n in range(500)]}, indent=2))
            await chat.type(f"/schema {tmp_path / 'long.json'}")
            assert chat.notices[-1].startswith('schema of replies: { "enum": [ "color 0", ')
            assert len(chat.notices[-1]) < 500 and "\n" not in chat.notices[-1]
            await chat.type("/schema off")
            assert "schema  context" not in chat.shown()
            await chat.say("two")
            assert "json_schema" not in chat.model.options[-1]

    run(test())
