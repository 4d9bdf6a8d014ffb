"""Search in all chats and in one chat; and continued replies."""

from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMError
from support.chat_app import chatting, run
from support.chat_fakes import FakeModel
from support.headless_chat import MakeFrontend
from tui.core.events import PathChanged, ReplyEnded
from tui.core.store import SavedChat, Store
from tui.core.tree import Message, Tree
from tui.sidebar import Sidebar


def turns(*texts: str) -> SavedChat:
    """A chat of these messages; every other one is a reply."""
    roles = ("user", "assistant")
    made = [Message(i + 1, i or None, roles[i % 2], text, 0.0, None, "eog") for i, text in enumerate(texts)]
    return SavedChat(0, texts[0], tree=Tree(made, len(made)))


def test_a_reply_is_gone_on_with_from_its_end(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["One, two"], [", three"], [" again"]]))
    frontend.open()
    frontend.say("count")
    frontend.controller.sender.continue_reply()
    ended = frontend.until(ReplyEnded)
    assert isinstance(ended, ReplyEnded)
    assert (frontend.texts, ended.text) == (["count", "One, two, three"], "One, two, three")
    frontend.controller.sender.continue_reply(text="Once")
    frontend.until(ReplyEnded)
    assert frontend.texts[-1] == "Once again"
    assert frontend.backend.model.asked == [[{"role": "user", "content": "count"}]] * 3
    stored = frontend.controller.store.load(frontend.controller.conversation.chat.id).tree
    versions = [
        stored.messages[version].text for version in stored.versions(frontend.controller.conversation.path[-1].id)
    ]
    assert versions == ["One, two", "One, two, three", "Once again"]


def test_a_reply_that_is_stopped_before_it_goes_on_keeps_its_beginning(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["One, two"], [", three"]]))
    frontend.open()
    frontend.say("count")
    frontend.backend.model.hold = 0
    frontend.controller.sender.continue_reply()
    assert frontend.backend.model.held.wait(20)
    frontend.controller.replies.stop()
    frontend.until(ReplyEnded)
    assert frontend.texts[-1] == "One, two"


@pytest.mark.parametrize("rest", [[], ["\n"]])
def test_a_reply_that_is_complete_gets_no_other_version(make_frontend: MakeFrontend, rest: list[str]) -> None:
    frontend = make_frontend(FakeModel(replies=[["One, two"], rest, ["."]]))
    frontend.open()
    frontend.say("count")
    before = frontend.controller.conversation.path
    frontend.controller.sender.continue_reply()
    frontend.until(ReplyEnded)
    frontend.until(PathChanged)
    assert "the reply is complete: the model adds nothing to it" in frontend.notices
    assert frontend.controller.conversation.path == before
    stored = frontend.controller.store.load(frontend.controller.conversation.chat.id).tree
    assert (stored.path(), stored.versions(before[-1].id)) == (before, [before[-1].id])
    frontend.say("and on")
    assert frontend.texts == ["count", "One, two", "and on", "."]


def test_a_text_of_ones_own_stays_also_where_the_model_adds_nothing(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["One, two"], []]))
    frontend.open()
    frontend.say("count")
    frontend.controller.sender.continue_reply(text="One")
    frontend.until(ReplyEnded)
    assert frontend.texts == ["count", "One"]
    assert len(frontend.controller.conversation.chat.tree.versions(frontend.controller.conversation.path[-1].id)) == 2


def test_a_version_that_adds_nothing_goes_also_while_another_chat_is_open(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["One, two"], []]))
    frontend.open()
    frontend.say("count")
    chat, before = frontend.controller.conversation.chat.id, frontend.controller.conversation.path
    frontend.backend.model.hold = 0
    frontend.controller.sender.continue_reply()
    frontend.controller.chats.new()
    frontend.backend.model.go.set()
    frontend.until(ReplyEnded)
    frontend.controller.chats.open(chat)
    assert frontend.controller.conversation.path == before


def test_without_a_reply_there_is_nothing_to_go_on_with(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    with pytest.raises(EdgeLLMError, match="no reply to go on with"):
        frontend.controller.sender.continue_reply()


def test_the_last_message_with_the_words_is_found_first_and_then_those_before(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    chat = turns("Apples and PEARS", "pears", "plums", "apples, pears")
    chat.tree.put(Message(5, 1, "assistant", "other pears and apples", 0.0))  # of another version
    frontend.controller.chats.open(frontend.controller.store.put(chat))
    found = [frontend.controller.navigation.find("pears apples") for _ in range(4)]
    texts = [frontend.controller.conversation.chat.tree.messages[each.message].text for each in found]
    assert texts == ["apples, pears", "Apples and PEARS", "other pears and apples", "apples, pears"]
    assert [each[1:] for each in found] == [(1, 3), (2, 3), (3, 3), (1, 3)]
    frontend.open()
    frontend.say("more apples and pears")
    assert frontend.controller.conversation.chat.tree.messages[
        frontend.controller.navigation.find("pears apples").message
    ].text.endswith("more apples and pears")
    with pytest.raises(EdgeLLMError, match="no message of this chat has the words cherries"):
        frontend.controller.navigation.find("cherries")


def test_a_search_opens_at_the_message_that_was_found(tmp_path: Path) -> None:
    """The hit is in a version that was not shown; the line with the word is scrolled to."""
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
            assert driven.transcript.selected == driven.app.controller.conversation.path[1].id

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
