"""Conversations of other programs: OpenAI's lists of messages and ChatGPT's export, also damaged ones."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm import EdgeLLMError
from tui.core.store import SavedChat, Store, import_formats
from tui.core.store.export import from_json


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("chats") / "chats.db")
    yield store
    store.close()


def imported(store: Store, value: Any) -> list[SavedChat]:
    return [store.load(chat) for chat in from_json(store, value if isinstance(value, str) else json.dumps(value))]


def turns(chat: SavedChat) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in chat.tree.path()]


TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is the\ncapital of France?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "content": "Paris", "tool_call_id": "1"},
    {"role": "assistant", "content": [{"type": "text", "text": "Paris."}, {"type": "image_url", "image_url": {}}]},
]
TOLD = [("user", "What is the\ncapital of France?"), ("tool", "Paris"), ("assistant", "Paris.\n\n[image_url]")]


@pytest.mark.parametrize("value", [TALK, {"messages": TALK, "model": "gpt"}, [{"messages": TALK}]])
def test_lists_of_messages(chats: Store, value: Any) -> None:
    (chat,) = imported(chats, value)
    assert (chat.title, chat.system, chat.model, chat.path) == (
        "What is the capital of France?",
        "Be brief.",
        None,
        None,
    )
    assert turns(chat) == TOLD


def test_a_conversation_on_each_line(chats: Store) -> None:
    lines = "\n".join(json.dumps({"messages": [{"role": "user", "content": text}]}) for text in ("one", "two"))
    assert [turns(chat) for chat in imported(chats, f"{lines}\n\n")] == [[("user", "one")], [("user", "two")]]
    one = json.dumps({"messages": [{"role": "user", "content": "alone"}]}, indent=1)
    assert [turns(chat) for chat in imported(chats, one)] == [[("user", "alone")]]


def test_a_line_is_what_a_line_feed_ends(chats: Store) -> None:
    """JSON strings may contain characters that Python's `splitlines` takes for line ends."""
    text = "one\u2028two\x85three\u2029four"
    line = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False)
    assert [turns(chat) for chat in imported(chats, f"{line}\r\n{line}\n")] == [[("user", text)]] * 2


def test_no_message_of_many_lines_is_lost(chats: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_formats, "_MAX_CHATS", 3)
    lines = "\n".join(json.dumps({"role": "user", "content": str(i)}) for i in range(10))
    (chat,) = imported(chats, lines)
    assert turns(chat) == [("user", str(i)) for i in range(10)]


def node(parent: str | None, role: str = "", text: Any = "", **about: Any) -> dict[str, Any]:
    """A node of ChatGPT's export; without a role it has no message."""
    content = {"content_type": "text", "parts": [text], **about.pop("content", {})}
    message = {"author": {"role": role}, "content": content, "create_time": 1.7e9, "metadata": about}
    return {"parent": parent, "children": [], "message": message if role else None}


EXPORTED = {
    "title": "Capitals",
    "current_node": "c",
    "mapping": {
        "d": node("b", "assistant", "Berlin, as I said.", model_slug="gpt-4o"),  # before its parent
        "root": node(None),
        "s": node("root", "system", "Be brief."),
        "h": node("s", "user", "about me", is_visually_hidden_from_conversation=True),
        "a": node("h", "user", "And Germany?"),
        "b": node("a", "assistant", "", model_slug="gpt-4o"),  # a call of a tool, without a text
        "c": node("b", "assistant", "Berlin.", model_slug="gpt-4o"),
        "i": node("c", "user", content={"parts": ["See", {"content_type": "image_asset_pointer"}]}),
    },
}


def test_what_chatgpt_exports(chats: Store) -> None:
    chat, other = imported(chats, [EXPORTED, {**EXPORTED, "title": None, "current_node": "gone"}])
    assert (chat.title, chat.system) == ("Capitals", "Be brief.")
    assert turns(chat)[:2] == [("user", "And Germany?"), ("assistant", "Berlin.")]
    reply = chat.tree.path()[1]
    assert (reply.model, reply.created, reply.finish_reason) == ("gpt-4o", 1.7e9, "eog")
    versions = [chat.tree.messages[version].text for version in chat.tree.versions(reply.id)]
    assert sorted(versions) == ["Berlin, as I said.", "Berlin."]
    assert turns(chat)[2:] == [("user", "See\n\n[image_asset_pointer]")]
    assert other.title == "And Germany?"


def test_a_circle_of_nodes_ends(chats: Store) -> None:
    circle = {"x": node("y", "user", "never"), "y": node("x", "user", "never"), "a": node(None, "user", "hello")}
    (chat,) = imported(chats, {"title": "t", "mapping": circle, "current_node": "x"})
    assert turns(chat) == [("user", "hello")]


def test_a_part_of_a_tree_is_read(chats: Store) -> None:
    """The first node names a parent that does not exist."""
    part = {"a": node("cut off", "user", "hello"), "b": node("a", "assistant", "Hi.")}
    (chat,) = imported(chats, {"mapping": part, "current_node": "b"})
    assert turns(chat) == [("user", "hello"), ("assistant", "Hi.")]


def test_a_conversation_deeper_than_python_is_read(chats: Store) -> None:
    mapping = {str(i): node(str(i - 1) if i else None, "user", f"m{i}") for i in range(5000)}
    (chat,) = imported(chats, {"mapping": mapping, "current_node": "4999"})
    assert len(turns(chat)) == 5000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "must be an object"),
        ([{"role": "user", "content": ""}], "no message in it has a text"),
        ([{"role": "wizard", "content": "x"}], "message 1 has no role of user"),
        ({"messages": ["x"]}, "message 1 has no role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "message 1 has no role"),
        ({"mapping": {"a": None}}, "no message in it has a text"),
        ([{"title": "x"}], "must be an object"),
    ],
)
def test_what_is_no_conversation_is_one_line(chats: Store, value: Any, expected: str) -> None:
    before = len(chats.chats())
    with pytest.raises(EdgeLLMError) as error:
        imported(chats, value)
    assert expected in str(error.value) and "\n" not in str(error.value)
    assert len(chats.chats()) == before


def test_input_beyond_the_bounds_is_refused(chats: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_formats, "_MAX_MESSAGES", 2)
    with pytest.raises(EdgeLLMError, match="more than 2 messages"):
        imported(chats, TALK)
    monkeypatch.setattr(import_formats, "_MAX_CHATS", 1)
    with pytest.raises(EdgeLLMError, match="more than 1 conversations"):
        imported(chats, [{"messages": TALK[:2]}] * 2)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from(["user", "a", "x\ud800", "", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "author", "parts", "parent", "message", "metadata"]), inner
        )
    ),
    max_leaves=8,
)


NODES = st.dictionaries(st.sampled_from("abc"), JSON | st.fixed_dictionaries({"message": JSON, "parent": JSON}))
LISTED = st.lists(st.fixed_dictionaries({"role": JSON, "content": JSON}))
EXPORT = st.fixed_dictionaries({"mapping": NODES, "current_node": JSON, "title": JSON})


@settings(max_examples=100, deadline=None)
@given(value=LISTED | EXPORT)
def test_whatever_stands_anywhere_is_imported_or_refused(chats: Store, value: Any) -> None:
    try:
        imported(chats, value)
    except EdgeLLMError as error:
        assert "\n" not in str(error)
