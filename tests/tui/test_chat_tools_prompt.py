"""The messages that a model gets of any conversation with calls, and such conversations as files."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.text.conversation import check_messages
from edgellm.tools.calls import ToolCall
from support.chat_tools import call
from tui.core.prompt_messages import NO_RESULT, STOPPED, prompt_messages
from tui.core.store import SavedChat, Store
from tui.core.store.export import from_json, to_json, to_markdown
from tui.core.tree import Message, Tree

ROME = call("weather", city="Rome & <b>")
CLOCK = call("clock", 1)


def chat_of(*messages: tuple[str, str, dict[str, Any]]) -> SavedChat:
    """A chat with one path of messages: role, text, and other fields."""
    found = [
        Message(number, number - 1 or None, role, text, 0.0, **fields)
        for number, (role, text, fields) in enumerate(messages, 1)
    ]
    return SavedChat(0, "Weather", tree=Tree(found, len(found) or None))


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


TALK = chat_of(
    ("user", "How is it?", {}),
    ("assistant", "Let me see.", {"tool_calls": (ROME, CLOCK), "finish_reason": "tool_calls"}),
    ("tool", "sunny", {"name": "weather", "tool_call_id": ROME.id}),
    ("tool", "```\n12", {"name": "clock", "tool_call_id": CLOCK.id}),
    ("assistant", "It is sunny.", {"finish_reason": "eog"}),
)


def test_an_empty_reply_after_results_does_not_take_them_along() -> None:
    path = [(m.role, m.text, {"tool_calls": m.tool_calls, "name": m.name}) for m in TALK.tree.path()[:4]]
    chat = chat_of(*path, ("assistant", "", {"finish_reason": "cancelled"}), ("user", "And?", {}))
    assert roles(prompt_messages(chat)) == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert prompt_messages(chat)[-2]["content"] == STOPPED


def test_a_result_that_is_missing_comes_after_those_that_are_there() -> None:
    path = [("assistant", "", {"tool_calls": (ROME, CLOCK)}), ("tool", "12", {"tool_call_id": CLOCK.id})]
    chat = chat_of(("user", "?", {}), *path)
    assert [message.get("content") for message in prompt_messages(chat)[2:]] == ["12", NO_RESULT]
    assert [message["tool_call_id"] for message in prompt_messages(chat)[2:]] == [CLOCK.id, ROME.id]


CALLS = st.sampled_from([(), (ROME,), (CLOCK,), (ROME, CLOCK)])
MESSAGE = st.one_of(
    st.tuples(st.just("user"), st.just("u"), st.just({})),
    st.tuples(st.just("assistant"), st.sampled_from(["", "a"]), CALLS.map(lambda calls: {"tool_calls": calls})),
    st.tuples(
        st.just("tool"),
        st.just("t"),
        st.sampled_from([ROME.id, CLOCK.id, None]).map(lambda id: {"tool_call_id": id, "name": "x"}),
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGE, max_size=10))
def test_each_call_has_one_result_before_the_next_message(messages: list[tuple[str, str, dict[str, Any]]]) -> None:
    found = prompt_messages(chat_of(*messages))
    check_messages(found)
    for place, message in enumerate(found):
        after = found[place + 1 :]
        results = after[: next((n for n, each in enumerate(after) if each["role"] != "tool"), len(after))]
        for each in message.get("tool_calls", ()):
            assert sum(result.get("tool_call_id", each["id"]) == each["id"] for result in results) >= 1
        if message.get("tool_calls"):
            assert not after[len(results) :] or after[len(results)]["role"] == "assistant"


def test_a_chat_with_calls_is_written_and_read_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    written = json.loads(to_json(TALK))
    assert written["version"] == 2 and written["messages"][1]["tool_calls"] == [ROME.as_message(), CLOCK.as_message()]
    (chat,) = from_json(store, json.dumps(written))
    again = store.load(chat).tree.path()
    assert [(m.role, m.text, m.tool_calls, m.name, m.tool_call_id, m.finish_reason) for m in again] == [
        (m.role, m.text, m.tool_calls, m.name, m.tool_call_id, m.finish_reason) for m in TALK.tree.path()
    ]
    branch = store.load(store.put(store.load(chat).up_to(again[3].id)))
    assert prompt_messages(branch) == prompt_messages(TALK)[:4]
    assert [row.hit for row in store.chats("sunny")][-1]
    store.close()
    assert json.loads(to_json(chat_of(("user", "Hello", {}))))["version"] == 1


def test_markdown_folds_calls_and_results() -> None:
    text = to_markdown(TALK)
    assert "<details><summary>weather(city=&quot;Rome &amp; &lt;b&gt;&quot;)</summary>\n\n```\nweather {\n" in text
    assert "## Tool\n\n<details><summary>clock</summary>\n\n````\n```\n12\n````\n\n</details>" in text


def test_messages_of_openai_keep_calls_and_results(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    function = {"name": "weather", "arguments": '{"city": "Rome"}'}
    bad = {"id": "2", "type": "function", "function": {"name": "weather", "arguments": "[1]"}}
    talk = [
        {"role": "user", "content": "?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": function}, bad],
        },
        {"role": "tool", "tool_call_id": "1", "content": ""},
        {"role": "assistant", "content": "Sunny."},
    ]
    (chat,) = from_json(store, json.dumps(talk))
    found = store.load(chat)
    assert found.tree.path()[1].tool_calls == (ToolCall("1", "weather", {"city": "Rome"}),)
    assert roles(prompt_messages(found)) == ["user", "assistant", "tool", "assistant"]
    store.close()
