"""Words, looked for in all chats and in one; and replies that are gone on with."""

from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMError
from support.chat_app import chatting, run
from support.chat_fakes import FakeModel
from support.desk_front import MakeFront
from tui.core.events import PathChanged, ReplyEnded
from tui.core.store import Chat, Store
from tui.core.tree import Message, Tree
from tui.sidebar import Sidebar


def turns(*texts: str) -> Chat:
    """A chat of these messages; every other one is a reply."""
    roles = ("user", "assistant")
    made = [Message(i + 1, i or None, roles[i % 2], text, 0.0, None, "eog") for i, text in enumerate(texts)]
    return Chat(0, texts[0], tree=Tree(made, len(made)))


def test_a_reply_is_gone_on_with_from_its_end(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["One, two"], [", three"], [" again"]]))
    front.open()
    front.say("count")
    front.desk.go_on()
    ended = front.until(ReplyEnded)
    assert isinstance(ended, ReplyEnded)
    assert (front.texts, ended.text) == (["count", "One, two, three"], "One, two, three")
    front.desk.go_on(text="Once")
    front.until(ReplyEnded)
    assert front.texts[-1] == "Once again"
    assert front.backend.model.asked == [[{"role": "user", "content": "count"}]] * 3
    stored = front.desk.store.load(front.desk.chat.id).tree
    versions = [stored.messages[version].text for version in stored.versions(front.desk.path[-1].id)]
    assert versions == ["One, two", "One, two, three", "Once again"]


def test_a_reply_that_is_stopped_before_it_goes_on_keeps_its_beginning(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["One, two"], [", three"]]))
    front.open()
    front.say("count")
    front.backend.model.hold = 0
    front.desk.go_on()
    assert front.backend.model.held.wait(20)
    front.desk.stop()
    front.until(ReplyEnded)
    assert front.texts[-1] == "One, two"


@pytest.mark.parametrize("rest", [[], ["\n"]])
def test_a_reply_that_is_complete_gets_no_other_version(make_front: MakeFront, rest: list[str]) -> None:
    front = make_front(FakeModel(replies=[["One, two"], rest, ["."]]))
    front.open()
    front.say("count")
    before = front.desk.path
    front.desk.go_on()
    front.until(ReplyEnded)
    front.until(PathChanged)
    assert "the reply is complete: the model adds nothing to it" in front.notices
    assert front.desk.path == before
    stored = front.desk.store.load(front.desk.chat.id).tree
    assert (stored.path(), stored.versions(before[-1].id)) == (before, [before[-1].id])
    front.say("and on")
    assert front.texts == ["count", "One, two", "and on", "."]


def test_a_text_of_ones_own_stays_also_where_the_model_adds_nothing(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["One, two"], []]))
    front.open()
    front.say("count")
    front.desk.go_on(text="One")
    front.until(ReplyEnded)
    assert front.texts == ["count", "One"]
    assert len(front.desk.chat.tree.versions(front.desk.path[-1].id)) == 2


def test_a_version_that_adds_nothing_goes_also_while_another_chat_is_open(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["One, two"], []]))
    front.open()
    front.say("count")
    chat, before = front.desk.chat.id, front.desk.path
    front.backend.model.hold = 0
    front.desk.go_on()
    front.desk.new_chat()
    front.backend.model.go.set()
    front.until(ReplyEnded)
    front.desk.open_chat(chat)
    assert front.desk.path == before


def test_without_a_reply_there_is_nothing_to_go_on_with(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    with pytest.raises(EdgeLLMError, match="no reply to go on with"):
        front.desk.go_on()


def test_the_last_message_with_the_words_is_found_first_and_then_those_before(make_front: MakeFront) -> None:
    front = make_front()
    chat = turns("Apples and PEARS", "pears", "plums", "apples, pears")
    chat.tree.put(Message(5, 1, "assistant", "other pears and apples", 0.0))  # of another version
    front.desk.open_chat(front.desk.store.put(chat))
    found = [front.desk.find("pears apples") for _ in range(4)]
    texts = [front.desk.chat.tree.messages[each.message].text for each in found]
    assert texts == ["apples, pears", "Apples and PEARS", "other pears and apples", "apples, pears"]
    assert [each[1:] for each in found] == [(1, 3), (2, 3), (3, 3), (1, 3)]
    front.open()
    front.say("more apples and pears")
    assert front.desk.chat.tree.messages[front.desk.find("pears apples").message].text.endswith("more apples and pears")
    with pytest.raises(EdgeLLMError, match="no message of this chat has the words cherries"):
        front.desk.find("cherries")


def test_a_search_opens_at_the_message_that_was_found(tmp_path: Path) -> None:
    """In a version that was not shown, and on the line with the word."""
    long = "line\n\n" * 60 + "the elephant\n\n" + "line\n\n" * 60
    chat = turns("first", long, "more", "last")
    chat.tree.put(Message(5, 1, "assistant", "short", 0.0))
    chat.tree.show(5)
    store = Store(tmp_path / "chats.db")
    store.put(chat)
    store.close()

    async def test() -> None:
        async with chatting(tmp_path, size=(120, 30)) as driven:
            await driven.press("ctrl+l")
            await driven.press(*"elephant")
            await driven.until(lambda: "elephant" in driven.screen.query_one(Sidebar)._rows[0].snippet)
            await driven.press("enter")
            await driven.pilot.pause()
            assert driven.texts[1] == long
            assert "the elephant" in driven.shown().replace("…", "").split("Enter opens")[0]
            assert driven.transcript.selected == driven.app.desk.path[1].id

    run(test())


def test_find_shows_the_line_even_where_it_is_folded(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    number = store.put(turns("line\n" * 60 + "the elephant\n" + "line\n" * 60, "reply"))
    store.close()

    async def test() -> None:
        async with chatting(tmp_path, chat=number) as driven:
            assert "the elephant" not in driven.shown()
            await driven.press("ctrl+f")
            assert driven.composer.text == "/find "
            await driven.press(*"elephant", "enter")
            await driven.until(lambda: "the elephant" in driven.shown())
            assert driven.notices == ["1 of 1 with these words, the last one first"]

    run(test())


def test_a_reply_is_edited_in_the_box_and_gone_on_with(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["One, two"], [" three"]])) as driven:
            await driven.say("count")
            await driven.press("alt+g")
            assert "editing reply" in driven.shown()
            assert driven.composer.text == "One, two"
            await driven.press(*",", "enter")
            await driven.until(lambda: driven.texts[-1] == "One, two, three")

    run(test())
