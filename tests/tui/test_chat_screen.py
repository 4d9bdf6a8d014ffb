"""The screen of the chat, driven by keys, with a fake model."""

from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMError
from support.chat_app import Driven, chatting, run
from support.chat_fakes import FakeBackend, FakeModel
from tui.app import ChatApp
from tui.core.store import Store
from tui.instruments import Panel
from tui.sidebar import Sidebar
from tui.transcript import Transcript


def test_a_message_is_answered_and_its_figures_stay(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("hello")
            assert chat.texts == ["hello", "You said: hello"]
            shown = chat.shown()
            assert "You said: hello" in shown
            assert "TTFT 0.21 s · decode 45.3 t/s" in shown
            assert chat.composer.text == ""

    run(test())


def test_escape_stops_a_reply_and_keeps_the_part(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["one ", "two ", "three"]], hold=2)) as chat:
            await chat.type("count")
            await chat.until(chat.model.held.is_set)
            await chat.until(lambda: "one two" in chat.shown())
            await chat.press("escape")
            await chat.until(lambda: chat.app.controller.replies.running is None)
            assert chat.texts == ["count", "one two "]
            assert "stopped by you" in chat.shown()

    run(test())


def test_an_edited_message_begins_a_branch_and_keys_walk_between_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            await chat.press("f2")
            assert chat.composer.text == "one"
            await chat.type("uno")
            await chat.until(lambda: chat.texts == ["uno", "You said: uno"])
            assert "2/2" in chat.shown()
            chat.transcript.selected = chat.app.controller.conversation.path[0].id
            await chat.press("alt+left")
            assert chat.texts == ["one", "You said: one"]

    run(test())


def test_another_reply_is_another_version(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["first"], ["second"]])) as chat:
            await chat.say("hello")
            await chat.press("ctrl+r")
            await chat.until(lambda: chat.texts == ["hello", "second"] and chat.app.controller.replies.running is None)
            await chat.press("alt+left")
            assert chat.texts == ["hello", "first"]

    run(test())


def test_a_draft_survives_leaving(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            chat.composer.text = "half a thou"
            await chat.leave()
        async with chatting(tmp_path) as chat:
            assert chat.composer.text == "half a thou"

    run(test())


def test_a_draft_survives_leaving_from_a_message_that_is_recalled(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("before")
            await chat.press(*"half", "up")
            assert chat.composer.text == "before"
            await chat.leave()
        async with chatting(tmp_path, chat=1) as chat:
            assert chat.composer.text == "half"

    run(test())


def test_each_chat_has_its_own_draft(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("first")
            first = chat.app.controller.conversation.chat.id
            chat.composer.text = "to be continued"
            await chat.press("ctrl+n")
            assert chat.composer.text == ""
            assert chat.texts == []
            chat.screen.parts.frontend.run(f"/chats {first}")
            assert chat.composer.text == "to be continued"
            assert chat.texts == ["first", "You said: first"]

    run(test())


def test_the_list_of_chats_searches_renames_deletes_and_brings_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("about apples")
            await chat.press("ctrl+n")
            await chat.say("about pears")
            await chat.press("ctrl+b")
            assert chat.screen.query_one(Sidebar).display
            await chat.press(*"apples")
            assert "about apples" in chat.shown()
            await chat.press("enter")
            assert chat.texts[0] == "about apples"
            chat.screen.query_one(Sidebar).search()
            await chat.press("f2", *" pie", "enter")
            assert [row.title for row in chat.app.controller.chats.list("pie")] == ["about apples pie"]
            await chat.press("delete")
            assert len(chat.app.controller.chats.list()) == 1
            await chat.press("ctrl+z")
            assert len(chat.app.controller.chats.list()) == 2

    run(test())


def test_delete_in_a_title_deletes_a_letter(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("about apples")
            await chat.press("ctrl+l", "f2", "home", "delete", "enter")
            assert [row.title for row in chat.app.controller.chats.list()] == ["bout apples"]

    run(test())


def test_f2_in_a_title_is_nothing_else(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("about apples")
            await chat.press("ctrl+l", "f2", "x", "f2", "y", "enter")
            assert [row.title for row in chat.app.controller.chats.list()] == ["about applesy"]

    run(test())


def test_a_chat_that_cannot_be_brought_back_yet_can_be_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("about apples")
            await chat.press("ctrl+l", "delete")
            with monkeypatch.context() as broken:
                broken.setattr(Store, "undelete", lambda *_: (_ for _ in ()).throw(EdgeLLMError("it is locked")))
                await chat.press("ctrl+z")
            assert "it is locked" in chat.notices
            await chat.press("ctrl+z")
            assert len(chat.app.controller.chats.list()) == 1

    run(test())


def test_after_a_click_on_the_conversation_no_key_is_the_lists(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("about apples")
            await chat.press("ctrl+l")
            await chat.pilot.click(Transcript, offset=(5, 5))
            await chat.press("delete", *"hi")
            assert len(chat.app.controller.chats.list()) == 1
            assert chat.composer.text == "hi"

    run(test())


def test_each_draft_stays_with_its_chat_where_messages_are_recalled(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            chat.composer.text = "first draft"
            await chat.press("ctrl+n")
            await chat.say("two")
            await chat.press(*"half", "up")
            chat.screen.parts.drafts.switch(lambda: chat.app.controller.chats.open(1))
            assert chat.composer.text == "first draft"
            await chat.press("up")
            await chat.leave()
        async with chatting(tmp_path, chat=1) as chat:
            assert chat.composer.text == "first draft"
        async with chatting(tmp_path, chat=2) as chat:
            assert chat.composer.text == "half"

    run(test())


def test_a_search_without_a_hit_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("about apples")
            await chat.press("ctrl+l", *"zebra")
            assert "no chat has these words" in chat.shown()
            await chat.press("enter", "delete")
            assert len(chat.app.controller.chats.list()) == 1

    run(test())


def test_the_panel_opens_and_closes(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=(120, 40)) as chat:
            await chat.say("hello")
            await chat.press("ctrl+t")
            assert chat.screen.query_one(Panel).display
            assert "MBU" in chat.shown()
            await chat.press("ctrl+t")
            assert not chat.screen.query_one(Panel).display

    run(test())


def test_an_error_of_the_engine_is_a_notice_and_the_chat_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["some ", "BREAK"], ["fine"]])) as chat:
            await chat.say("hello")
            assert chat.texts == ["hello", "some "]
            assert any("the engine broke" in notice for notice in chat.notices)
            await chat.say("again")
            assert chat.texts[-1] == "fine"

    run(test())


def test_a_command_that_is_wrong_says_what_is_meant(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.type("/sytem Be brief.")
            assert any("did you mean /system?" in notice for notice in chat.notices)
            assert chat.composer.text == "/sytem Be brief."
            await chat.press(*"/find zzz", "enter")  # in its place, and is not glued to it
            assert any("no message of this chat has the words zzz" in notice for notice in chat.notices)
            assert chat.composer.text == "/find zzz"
            await chat.press(*"/find", "enter")
            assert any("give words" in notice for notice in chat.notices)
            await chat.press(*"/export", "enter")
            assert any("give a file" in notice for notice in chat.notices)
            await chat.type("/regen")  # nothing in it could be mended
            assert any("no message yet" in notice for notice in chat.notices)
            assert chat.composer.text == ""
            await chat.type("/system Be brief.")
            assert chat.app.controller.conversation.chat.system == "Be brief."

    run(test())


def test_control_c_drops_what_is_typed_unless_it_copies_or_stops(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["one", "two"]], hold=1)) as chat:
            await chat.type("hello")
            await chat.until(lambda: chat.model.held.is_set())
            await chat.press(*"draft", "ctrl+c")
            assert chat.composer.text == "draft"
            await chat.until(lambda: chat.app.controller.replies.running is None)
            await chat.press("shift+home", "ctrl+c")
            assert (chat.composer.text, chat.app.clipboard) == ("draft", "draft")
            await chat.press("end", "ctrl+c")
            assert chat.composer.text == ""
            await chat.press("up")
            assert chat.composer.text == "draft"
            await chat.press("f1", "ctrl+c")
            assert chat.composer.text == "draft"

    run(test())


def test_files_go_with_the_next_message(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "notes.md").write_text("# Notes\n")
        async with chatting(tmp_path) as chat:
            await chat.type(f"/file {tmp_path / 'notes.md'}")
            assert "notes.md" in chat.shown()
            await chat.say("what is in it?")
            assert chat.texts[0] == "notes.md:\n```\n# Notes\n```\n\nwhat is in it?"

    run(test())


def test_what_is_outside_the_window_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            chat.model.dropped = (1204, 2)
            await chat.say("two")
            assert "did not see 1,204 tokens" in chat.shown()

    run(test())


def test_a_file_that_is_too_long_is_reported_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "long.txt").write_text("word " * 4090)
        (tmp_path / "short.txt").write_text("word\n")
        async with chatting(tmp_path) as chat:
            await chat.type(f"/file {tmp_path / 'short.txt'}")
            await chat.until(lambda: "short.txt, 1 line, 4 tokens" in chat.shown())
            await chat.type(f"/file {tmp_path / 'long.txt'}")
            await chat.until(lambda: "long.txt, 1 line, 4,093 tokens" in chat.shown())
            assert any("short.txt, long.txt: 4,097 tokens, and the context has 4,096" in each for each in chat.notices)
            chips = chat.composer.query_one("AttachmentBar")
            assert chips.has_class("wrong")
            await chat.press("backspace")
            assert not chips.has_class("wrong")

    run(test())


def test_a_notice_does_not_cover_what_can_be_typed_in_the_picker(tmp_path: Path) -> None:
    async def test() -> None:
        app = ChatApp(Store(tmp_path / "chats.db"), FakeBackend(), "fake")
        async with app.run_test(size=(80, 24), notifications=True) as pilot:
            chat = Driven(app, pilot, FakeModel())
            await chat.until(lambda: app.controller.model.opened)
            await chat.press("f3")
            app.notify("a notice of some length, which is shown above, over what is there", severity="error")
            await chat.until(lambda: "a notice of some" in chat.shown())
            assert "type to filter, or ORG/NAME to pull from Hugging Face" in chat.shown()
        app.controller.close()

    run(test())


def test_a_message_without_a_model_stays_in_the_box(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            chat.app.controller.model.open("missing")
            await chat.until(lambda: len(chat.app.screen_stack) > 2)
            await chat.press("escape")
            await chat.type("hello?")
            assert (chat.composer.text, chat.texts) == ("hello?", [])
            assert any("no model is open" in notice for notice in chat.notices)

    run(test())


def test_what_opens_the_model_anew_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            for line in "/set temp 1.5", "/set ctx 2048":
                await chat.type(line)
            assert chat.notices[-2:] == ["temp: 1.5", "ctx: 2048; the model is reloaded"]

    run(test())
