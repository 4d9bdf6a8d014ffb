"""Calls of tools in the chat without a screen: questions, runs, stops, and the messages that remain."""

import json
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from edgellm import EdgeLLMError
from edgellm.text.conversation import check_messages
from edgellm.tools.calls import REFUSED, BrokenCall
from support.chat_fakes import FakeModel
from support.chat_tools import PRINT, WAIT, call, wait_for, write_commands
from support.headless_chat import HeadlessFrontend
from support.mcp_scripts import servers_file
from tui.core.events import CallsChanged, ModelOpened, Notice, ReplyEnded, ResultAdded, ServersOpened
from tui.core.prompt_messages import NO_RESULT, STOPPED
from tui.core.tool_question import Answer, Question
from tui.core.tool_runs import MAX_STEPS

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


def test_a_call_runs_once_the_user_agrees(tmp_path: Path) -> None:
    frontend = opened(tmp_path, ["Let me see.", ROME], ["It is sunny."])
    frontend.say("How is it in Rome?")
    question = asked(frontend)
    assert question.call == ROME
    assert question.text.endswith(" Rome") and "sys.argv[1]" in question.text
    assert frontend.controller.replies.busy and frontend.controller.replies.running is None
    answer(frontend, Answer.ONCE)
    frontend.until(ReplyEnded)
    assert roles(frontend) == [
        ("user", "How is it in Rome?"),
        ("assistant", "Let me see."),
        ("tool", RESULT),
        ("assistant", "It is sunny."),
    ]
    assert sent(frontend) == [{"role": "user", "content": "How is it in Rome?"}, CALL, {**TOOL, "content": RESULT}]
    assert [tool.name for tool in frontend.backend.model.options[-1]["tools"]] == ["weather", "wait"]
    assert not frontend.controller.replies.busy


def test_arguments_that_a_command_reads_from_stdin_are_in_the_question(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [call("python", city="Rome", code="import os\n\u202eos.remove('x')")])
    parameters = {"type": "object", "properties": {"city": {"type": "string"}, "code": {"type": "string"}}}
    entry = {"name": "python", "parameters": parameters, "command": [*PRINT[:2], "exec(input())", "{city}"]}
    (tmp_path / "tools.json").write_text(json.dumps([entry]))
    frontend.controller.tools.use_commands(tmp_path / "tools.json")
    frontend.say("?")
    shown = """on stdin: {"code": "import os\\n\\u202eos.remove('x')"}"""
    assert asked(frontend).text.split("\n")[1:] == [shown]


def test_a_refusal_is_told_to_the_model(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [ROME], ["Then not."])
    frontend.say("?")
    answer(frontend, Answer.REFUSE)
    frontend.until(ReplyEnded)
    assert sent(frontend)[1:] == [{**CALL, "content": None}, {**TOOL, "content": REFUSED}]
    assert frontend.texts[-1] == "Then not."


def test_a_tool_that_is_allowed_asks_no_more(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [ROME], [call("weather", 1, city="Oslo")], ["Both."], [call("weather", 2, city="x")])
    frontend.say("?")
    answer(frontend, Answer.ALWAYS)
    for _ in range(2):
        frontend.until(ReplyEnded)
    assert [text for role, text in roles(frontend) if role == "tool"] == [RESULT, "Oslo is sunny\nwind: 3\n"]
    frontend.controller.tools.use_commands(tmp_path / "tools.json")  # the commands may be others
    frontend.say("and x?")
    assert asked(frontend).call.arguments == {"city": "x"}


def test_a_tool_that_is_replaced_while_it_asks_does_not_run(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [ROME], ["I see."])
    frontend.say("?")
    asked(frontend)
    others = write_commands(tmp_path / "others.json", weather=[*WAIT[:-1], "{city}"])
    frontend.controller.tools.use_commands(others)
    answer(frontend, Answer.ALWAYS)
    frontend.until(ReplyEnded)
    assert frontend.texts == ["?", "", REFUSED, "I see."] and not frontend.controller.tools.allowed


def test_several_calls_of_one_reply_are_asked_one_after_the_other(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [ROME, call("weather", 1, city="Oslo")], ["Done."])
    frontend.say("?")
    first = asked(frontend)
    answer(frontend, Answer.ONCE)
    frontend.controller.calls.answer(first, Answer.ONCE)  # a key pressed twice
    frontend.until(ResultAdded)
    assert asked(frontend).call.arguments == {"city": "Oslo"}
    frontend.controller.calls.answer(first, Answer.ONCE)
    assert frontend.controller.calls.question
    answer(frontend, Answer.REFUSE)
    frontend.until(ReplyEnded)
    assert [text for role, text in roles(frontend) if role == "tool"] == [RESULT, REFUSED]


def test_a_call_that_is_stopped_has_no_result_and_the_next_prompt_is_valid(tmp_path: Path) -> None:
    started = tmp_path / "started"
    frontend = opened(tmp_path, [call("wait", path=str(started)), call("weather", 1, city="Rome")], ["Hello."])
    frontend.say("?")
    answer(frontend, Answer.ONCE)
    wait_for(started)
    frontend.controller.replies.stop()
    assert not frontend.controller.replies.busy
    frontend.controller.calls.close()  # the thread ends long before the command would
    frontend.say("Leave it.")
    calls = [call("wait", path=str(started)), call("weather", 1, city="Rome")]
    assert sent(frontend)[1:] == [
        {"role": "assistant", "content": None, "tool_calls": [each.as_message() for each in calls]},
        {"role": "tool", "tool_call_id": "call00000", "name": "wait", "content": NO_RESULT},
        {"role": "tool", "tool_call_id": "call00001", "name": "weather", "content": NO_RESULT},
        {"role": "assistant", "content": STOPPED},
        {"role": "user", "content": "Leave it."},
    ]
    assert frontend.texts == ["?", "", "Leave it.", "Hello."]
    assert not frontend.controller.status.unseen()


def test_a_run_after_a_stopped_one_is_not_stopped_with_it(tmp_path: Path) -> None:
    started = tmp_path / "started"
    frontend = opened(tmp_path, [call("wait", path=str(started))], [ROME], ["Sunny."])
    frontend.controller.tools.allowed |= {"wait", "weather"}
    frontend.say("?")
    wait_for(started)
    frontend.controller.sender.regenerate()
    for _ in range(2):
        frontend.until(ReplyEnded)
    assert roles(frontend) == [("user", "?"), ("assistant", ""), ("tool", RESULT), ("assistant", "Sunny.")]


def test_a_question_is_taken_back_with_its_reply(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [ROME], ["Another reply."])
    frontend.say("?")
    asked(frontend)
    frontend.controller.chats.new()
    assert frontend.controller.calls.question is None
    frontend.say("Hello")
    assert frontend.texts == ["Hello", "Another reply."]


def test_a_reply_that_was_stopped_at_its_end_asks_nothing(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [ROME])
    frontend.controller.sender.send("?")
    assert frontend.controller.worker.done().wait(20)  # its events are still to come
    frontend.controller.replies.stop()
    frontend.until(ReplyEnded)
    assert not frontend.controller.calls.is_active and not frontend.controller.replies.busy


def test_calls_alone_may_continue_a_reply(tmp_path: Path) -> None:
    frontend = opened(tmp_path, ["Let me see."], [ROME], ["Sunny."])
    frontend.say("?")
    frontend.controller.sender.continue_reply()
    answer(frontend, Answer.REFUSE)
    frontend.until(ReplyEnded)
    assert frontend.texts == ["?", "Let me see.", REFUSED, "Sunny."]


def test_another_version_hides_the_question(tmp_path: Path) -> None:
    frontend = opened(tmp_path, ["First."], [ROME], ["Sunny."])
    frontend.say("?")
    frontend.controller.sender.regenerate()
    question = asked(frontend)
    frontend.controller.navigation.walk(None, -1)
    assert frontend.controller.calls.question is None and not frontend.controller.replies.busy
    frontend.controller.navigation.walk(None, 1)
    assert frontend.controller.calls.question is question
    answer(frontend, Answer.REFUSE)
    frontend.until(ReplyEnded)
    assert frontend.texts == ["?", "", REFUSED, "Sunny."]


def test_a_result_that_comes_while_another_version_is_shown_stays_with_its_own(tmp_path: Path) -> None:
    frontend = opened(tmp_path, ["First."], [ROME], ["Sunny."])
    frontend.say("?")
    frontend.controller.sender.regenerate()
    answer(frontend, Answer.ONCE)
    frontend.controller.navigation.walk(None, -1)
    while frontend.controller.calls.is_running:
        frontend.until(CallsChanged)
    assert frontend.texts == ["?", "First."]
    frontend.controller.navigation.walk(None, 1)
    assert frontend.texts == ["?", "", RESULT]
    frontend.controller.sender.regenerate()
    frontend.until(ReplyEnded)
    assert frontend.texts == ["?", "", RESULT, "Sunny."]


def test_versions_after_results(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [ROME], ["Sunny."], ["It is sunny there."], ["An edited one."])
    frontend.say("Rome?")
    answer(frontend, Answer.ONCE)
    frontend.until(ReplyEnded)
    frontend.controller.sender.regenerate()
    frontend.until(ReplyEnded)
    assert frontend.texts == ["Rome?", "", RESULT, "It is sunny there."]  # the call did not run again
    assert sent(frontend)[-1] == {**TOOL, "content": RESULT}
    frontend.controller.navigation.walk(None, -1)
    assert frontend.texts[-1] == "Sunny."
    frontend.controller.sender.edit(frontend.controller.conversation.path[0].id, "Oslo?")
    frontend.until(ReplyEnded)
    assert frontend.texts == ["Oslo?", "An edited one."]


def test_a_reply_with_calls_is_not_continued(tmp_path: Path) -> None:
    frontend = opened(tmp_path, ["Text.", ROME])
    frontend.say("?")
    frontend.controller.replies.stop()
    with pytest.raises(EdgeLLMError, match="/regen"):
        frontend.controller.sender.continue_reply()


def test_calls_end_after_a_number_of_steps(tmp_path: Path) -> None:
    replies = [[call("weather", n, city="Rome")] for n in range(MAX_STEPS + 1)]
    frontend = opened(tmp_path, *replies, ["Never."], ["Better."])
    frontend.controller.tools.allowed.add("weather")
    frontend.say("?")
    for _ in range(MAX_STEPS):
        frontend.until(ReplyEnded)
    while not frontend.notices:
        frontend.until(Notice)
    assert frontend.notices[0].startswith(
        f"{MAX_STEPS} replies to this message called tools; the last calls do not run"
    )
    assert sum(role == "tool" for role, _ in roles(frontend)) == MAX_STEPS
    assert not frontend.controller.replies.busy


def test_a_call_that_does_not_parse_is_shown_with_its_text_and_problem(tmp_path: Path) -> None:
    broken = BrokenCall('<tool_call>{"name": "weather"', "it ends inside of a call")
    frontend = opened(tmp_path, ["So: ", broken])
    frontend.say("?")
    assert frontend.texts[-1] == 'So: <tool_call>{"name": "weather"'
    reply = frontend.controller.conversation.path[-1]
    problem = "the call at the end of this reply does not parse: it ends inside of a call"
    assert frontend.controller.replies.errors[reply.id] == problem


def test_arguments_that_a_command_does_not_take_are_told_without_a_question(tmp_path: Path) -> None:
    frontend = opened(tmp_path, [call("weather", city="-x")], ["I see."])
    frontend.say("?")
    frontend.until(ReplyEnded)
    assert sent(frontend)[-1]["content"].startswith("error: tool weather: argument city")
    assert frontend.texts[-1] == "I see."


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

    def open_slowly(path: Path, cancelled: Event) -> SimpleNamespace:
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

    def open_slowly(path: Path, cancelled: Event) -> SimpleNamespace:
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
