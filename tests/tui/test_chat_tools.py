"""Calls of tools in the chat without a screen: questions, runs, stops, and the messages that remain."""

import json
from pathlib import Path

import pytest

from edgellm import EdgeLLMError
from edgellm.tools.calls import REFUSED, BrokenCall
from support.chat_tools import PRINT, WAIT, call, wait_for, write_commands
from support.tool_chat import CALL, RESULT, ROME, TOOL, answer, asked, opened, roles, sent
from tui.core.events import CallsChanged, Notice, ReplyEnded, ResultAdded
from tui.core.prompt_messages import NO_RESULT, STOPPED
from tui.core.tool_question import Answer
from tui.core.tool_runs import MAX_STEPS


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
