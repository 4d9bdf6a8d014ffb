"""Chats as files: Markdown to read, and JSON that is imported completely or not at all."""

import json
import unicodedata
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm import EdgeLLMError
from support.imports import HEAVY, loaded
from tui.core.store import SavedChat, Store
from tui.core.store.export import from_json, to_json, to_markdown
from tui.core.tree import Message, Tree

FIGURES = {"prompt_tokens": 12, "cached_tokens": 4, "generated_tokens": 1234, "ttft_s": 0.25, "prefill_tps": 48.0}
FIGURES |= {"decode_tps": 20.5, "itl_ms": {"p50": 10.0, "p95": 12.5}, "mbu": None}
STATS = {**FIGURES, "devices": [{"name": "CPU", "blocks": 5, "bytes": 1000}]}


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("chats") / "chats.db")
    yield store
    store.close()


def chat(*messages: Message, leaf: int | None = None, **fields: Any) -> SavedChat:
    return SavedChat(0, tree=Tree(messages, leaf or (messages[-1].id if messages else None)), **fields)


def test_markdown_of_the_shown_path() -> None:
    question = Message(1, None, "user", "  How?\n\n- one", 0.0)
    other = Message(2, 1, "assistant", "another version", 0.0)
    text = "<think>\nHm.\n</think>\n\nSo:\n```python\nx = 1\n"
    reply = Message(3, 1, "assistant", text, 0.0, "qwen", "cancelled", STATS, 7)
    markdown = to_markdown(chat(question, other, reply, title="Sorting\n# x", system="Be brief."))
    assert markdown == (
        "# Sorting # x\n\n## System\n\nBe brief.\n\n## User\n\nHow?\n\n- one\n\n## Assistant\n\n"
        "<details><summary>Thinking</summary>\n\nHm.\n\n</details>\n\nSo:\n```python\nx = 1\n```\n\n"
        "<sub>qwen · 1,234 tokens · TTFT 0.25 s · 20.5 tokens/s · did not see 7 tokens · cancelled</sub>\n"
    )


def test_files_do_nothing_to_a_terminal_that_shows_them(chats: Store) -> None:
    """Words and emoji stay as they are; in JSON all characters do, as escapes."""
    text = "\x1b]52;c;eA==\x07\x9b2J\r\x7f\x00 \u202eevil\u2066 👩\u200d💻 क्\u200dष \u200f\r\n\tend"
    whole = chat(Message(1, None, "user", text, 0.0), title=text, system=text)
    markdown = to_markdown(whole)
    assert "␛]52;c;eA==␇\ufffd2J␍␡␀ evil 👩\u200d💻 क्\u200dष \u200f\n\tend\n" in markdown
    document = to_json(whole)
    for file in (markdown, document):
        assert not {c for c in file if unicodedata.category(c) == "Cc"} - {"\n", "\t"}
        assert not {"\u202e", "\u2066"} & set(file)
    (made,) = from_json(chats, document)
    assert chats.load(made).tree.messages[1].text == text


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("```\na\n```", ""),
        ("````\na\n```", "\n````"),
        ("```\na\n~~~", "\n```"),
        ("~~~ py\n```", "\n~~~"),
        ("```\na\n```\n```c\nb", "\n```"),
        ("```a``` and b", ""),
        ("a ``` b", ""),
    ],
)
def test_what_follows_a_message_is_never_part_of_its_code(text: str, closed: str) -> None:
    assert to_markdown(chat(Message(1, None, "user", text, 0.0))) == f"# Chat\n\n## User\n\n{text}{closed}\n"
    thinking = to_markdown(chat(Message(1, None, "assistant", f"<think>{text}", 0.0)))
    assert f"\n\n{text}{closed}\n\n</details>" in thinking


def test_a_user_message_about_thinking_is_not_folded() -> None:
    assert "<details>" not in to_markdown(chat(Message(1, None, "user", "<think>what is this?", 0.0)))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
STATED = st.fixed_dictionaries(
    {},
    optional={
        "generated_tokens": st.integers(0, 10**9),
        "ttft_s": st.none() | st.floats(0, 1e9),
        "itl_ms": st.none() | st.just({"p50": 1.5, "p95": 2.0}),
        "devices": st.just([{"name": "CPU", "blocks": 2, "bytes": 0}]),
    },
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    tree = Tree()
    for id_ in draw(st.lists(st.integers(0, 10**12), unique=True, max_size=12)):
        parent = draw(st.sampled_from([None, *tree.messages]))
        role, reason = draw(st.sampled_from(["user", "assistant"])), draw(st.sampled_from([None, "eog", "error"]))
        created, stats = draw(st.floats(0, 1e10)), draw(st.none() | STATED)
        model, dropped = draw(st.none() | TEXTS), draw(st.integers(0, 9))
        tree.put(Message(id_, parent, role, draw(TEXTS), created, model, reason, stats, dropped))
    if tree.messages:
        tree.show(draw(st.sampled_from(list(tree.messages))))
    return tree


def shape(chat: SavedChat) -> Any:
    """A chat without its id, with the ids of its messages numbered from 1."""
    places = {message: place for place, message in enumerate(chat.tree.messages)}
    messages = [
        replace(m, id=place, parent=None if m.parent is None else places[m.parent])
        for place, m in enumerate(chat.tree.messages.values())
    ]
    return chat.system, chat.model, messages, places.get(chat.tree.leaf)


@settings(max_examples=50, deadline=None)
@given(tree=trees(), system=st.none() | TEXTS, model=st.none() | TEXTS)
def test_json_brings_everything_back(chats: Store, tree: Tree, system: str | None, model: str | None) -> None:
    sent = SavedChat(5, "title", system, model, tree, "a draft is not exported")
    back = chats.load(from_json(chats, to_json(sent))[0])
    assert shape(back) == shape(sent)
    assert (back.title, back.draft) == ("title", "")


def test_json_says_what_it_is() -> None:
    found = json.loads(to_json(chat(Message(1, None, "user", "½\ud800", 0.5), title="T")))
    assert (found["format"], found["version"], found["title"], found["leaf"]) == ("edgellm-chat", 1, "T", 1)
    assert found["messages"][0]["text"] == "½?"
    assert "½" in to_json(chat(title="½"))


def document(**changes: Any) -> dict[str, Any]:
    """The JSON of a chat of two messages, with some fields changed; `second` changes the second message."""
    first = {"id": 1, "parent": None, "role": "user", "text": "a", "created": 1.5, "model": None}
    first |= {"finish_reason": None, "stats": None, "dropped_tokens": 0, "dropped_messages": 0}
    second = {**first, "id": 2, "parent": 1, "role": "assistant", "stats": STATS, **changes.pop("second", {})}
    head = {"format": "edgellm-chat", "version": 1, "title": "t", "system": None, "model": "m", "leaf": 2}
    return {**head, "messages": [first, second], **changes}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no JSON at line 1, column 1"),
        ('{"format": "edgellm-chat"', "no JSON at line 1"),
        ("[" * 100_000, "no JSON of a chat"),
        ("1" * 10_000, "no JSON of a chat"),
        ("[]", "must be an object"),
        ("{}", "has no format"),
        *(
            (json.dumps(document(**changes)), expected)
            for changes, expected in [
                ({"format": "other"}, "format must be one of edgellm-chat"),
                ({"version": 3}, "version 3"),
                ({"version": True}, "version must be a whole number"),
                ({"title": None}, "title must be text"),
                ({"system": 3}, "system must be text"),
                ({"leaf": 3}, "leaf 3 is not among the messages"),
                ({"leaf": None}, "leaf None"),
                ({"leaf": 1, "messages": []}, "leaf 1"),
                ({"messages": {}}, "messages must be a list"),
                ({"messages": [None]}, "1: must be an object"),
                ({"second": {"id": 1}}, "2: id 1 appears twice"),
                ({"second": {"id": "2"}}, "2: id must be a whole number"),
                ({"second": {"id": 2**70}}, "2: id must be a whole number"),
                ({"second": {"parent": 2}}, "2: parent 2 is not among those before it"),
                ({"second": {"parent": 9}}, "2: parent 9"),
                ({"second": {"parent": -1}}, "2: parent must be"),
                ({"second": {"role": "root"}}, "2: role must be one of"),
                ({"second": {"role": ["user"]}}, "2: role must be one of"),
                ({"second": {"text": None}}, "2: text must be text"),
                ({"second": {"created": float("nan")}}, "2: created must be a finite number"),
                ({"second": {"created": float("inf")}}, "2: created must be a finite number"),
                ({"second": {"model": {}}}, "2: model must be text"),
                ({"second": {"finish_reason": "x"}}, "2: finish_reason must be one of"),
                ({"second": {"dropped_tokens": -1}}, "2: dropped_tokens must be"),
                ({"second": {"stats": []}}, "2: stats must be an object"),
                ({"second": {"stats": {"ttft_s": "1"}}}, "2: stats ttft_s must be a finite number"),
                ({"second": {"stats": {"itl_ms": {"p50": 1}}}}, "2: stats itl_ms has no p95"),
                ({"second": {"stats": {"devices": [{"name": 1}]}}}, "2: stats devices 1: has no blocks"),
            ]
        ),
    ],
)
def test_what_is_no_chat_is_refused_whole(chats: Store, text: str, expected: str) -> None:
    before = len(chats.chats())
    with pytest.raises(EdgeLLMError) as error:
        from_json(chats, text)
    assert expected in str(error.value) and "\n" not in str(error.value)
    assert len(chats.chats()) == before


def test_a_file_that_is_too_large_is_refused(chats: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(document())
    monkeypatch.setattr("tui.core.store.export._MAX_CHARACTERS", len(text) - 1)
    with pytest.raises(EdgeLLMError, match="more than"):
        from_json(chats, text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "p50", "name"]), inner),
    max_leaves=3,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_stands_anywhere_is_imported_or_refused(chats: Store, data: st.DataObject) -> None:
    value: Any = {"": deepcopy(document())}  # what stands in it is put elsewhere, and must not stay so
    place: Any = value
    key: Any = ""
    while isinstance(place[key], (dict, list)) and place[key] and data.draw(st.integers(0, 5)):
        place = place[key]
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
    place[key] = data.draw(JSON)
    try:
        back = chats.load(from_json(chats, json.dumps(value[""]))[0])
    except EdgeLLMError as error:
        assert "\n" not in str(error)
    else:
        assert to_markdown(back) and len(back.tree.messages) <= 2


def test_the_store_loads_nothing_heavy() -> None:
    assert not loaded("import tui.core.store.export") & HEAVY
