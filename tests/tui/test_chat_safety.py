"""Wrong fields, wrong paths, a store that fails: no text is lost, and the chat goes on."""

from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMError
from support.chat_app import Driven, chatting, run
from tui.core.store import Store
from tui.core.store.preferences import Preferences
from tui.sidebar import Sidebar


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/file ~nobody-of-this-name/notes", "there is no such user"),
        ("/import ~nobody-of-this-name/chat.json", "there is no such user"),
        ("/export ~nobody-of-this-name/chat.md", "there is no such user"),
        ("/file /", "Is a directory; give a text file"),
        ("/file no-such-file", "there is no such file; check the path"),
        ("/chats 99999999999999999999", "give the number of a chat"),
        (f"/chats {'9' * 5000}", "give the number of a chat"),
        ("/chats 77", "/chats lists all"),
    ],
)
def test_a_command_that_cannot_be_done_is_a_notice(tmp_path: Path, line: str, expected: str) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.type(line)
            await chat.until(lambda: chat.notices)
            assert expected in chat.notices[-1]

    run(test())


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            for command in ("/file", "/import", "/export"):
                chat.screen.parts.frontend.run(f"{command} {name}")
                await chat.until(lambda: any("no file can have this name" in notice for notice in chat.notices))
                chat.app.clear_notifications()

    run(test())


def test_a_notice_is_plain_text(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            chat.app.notify("[red]one[/]\n\x1b]0;two\x07\u202e\x9b")
            chat.composer.notify("[red]three[/]")
            await chat.until(lambda: len(chat.notices) == 2)
            assert chat.notices == ["[red]one[/]\n␛]0;two␇\ufffd", "[red]three[/]"]
            assert not any(notice.markup for notice in chat.app._notifications)

    run(test())


def test_a_message_that_is_edited_does_not_go_to_another_chat(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            chat.composer.text = "begun"
            await chat.press("f2")
            chat.composer.text = "one, edited"
            await chat.press("ctrl+n")
            assert (chat.composer.text, chat.composer.form.editing) == ("", None)
            await chat.say("two")
            assert chat.texts == ["two", "You said: two"]
            await chat.type("/chats 1")
            await chat.until(lambda: chat.texts[0] == "one")
            assert chat.composer.text == "one, edited\n\nbegun"

    run(test())


def test_commands_that_go_to_another_chat_bring_its_draft(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            chat.composer.text = "half of it"
            await chat.press("ctrl+n")
            await chat.say("two")
            await chat.type("/chats 1")
            await chat.until(lambda: chat.composer.text == "half of it")
            await chat.type("/clear")
            await chat.until(lambda: not chat.texts)
            assert chat.composer.text == ""
            assert chat.app.controller.store.load(2).draft == ""

    run(test())


def test_an_edit_that_is_begun_is_kept_as_it_is_typed(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            chat.composer.text = "begun"
            await chat.press("f2")
            chat.composer.text = "one, edited"
            await chat.until(lambda: chat.app.controller.store.load(1).draft == "one, edited\n\nbegun")
            await chat.press("enter")
            await chat.until(lambda: len(chat.texts) == 2 and chat.app.controller.replies.running is None)
            assert chat.composer.text == chat.app.controller.store.load(1).draft == "begun"

    run(test())


def test_what_the_store_refuses_comes_back_into_the_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            with monkeypatch.context() as broken:
                broken.setattr(Store, "add", refuses)
                chat.composer.form.attach("notes.md", "some notes")
                await chat.type("//two")
                await chat.until(lambda: chat.notices)
                assert chat.composer.text == "//two"
                assert [each.name for each in chat.composer.form.files] == ["notes.md"]
                await chat.press("f2")
                await chat.type("uno")
                await chat.until(lambda: (chat.composer.text, chat.composer.form.editing) == ("uno", 1))
                await chat.press("escape")
                assert chat.composer.text == "//two"
            await chat.press("enter")
            await chat.until(lambda: len(chat.texts) == 4 and chat.app.controller.replies.running is None)
            assert chat.texts[2] == "notes.md:\n```\nsome notes\n```\n\n/two"

    run(test())


def test_a_draft_that_cannot_be_stored_is_not_left_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            monkeypatch.setattr(Preferences, "set", refuses)
            chat.composer.text = "half a thou"
            await chat.press("ctrl+q")
            assert any("to leave all the same" in notice for notice in chat.notices)
            assert chat.app.is_running
            await chat.leave()

    run(test())


@pytest.mark.parametrize("key", ["f1", "f3", "f4", "ctrl+l", "ctrl+t"])
def test_one_can_leave_from_every_screen(tmp_path: Path, key: str) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            chat.composer.text = "half a thought"
            await chat.press(key)
            await chat.leave()
        async with chatting(tmp_path) as chat:
            assert chat.composer.text == "half a thought"

    run(test())


def test_a_notice_that_is_there_is_not_shown_twice(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            for text in ("one", "two", "one"):
                chat.app.notify(text)
            await chat.pilot.pause()
            assert chat.notices == ["one", "two"]

    run(test())


READS = ["chats", "load"]
CHANGES = ["newest", "show", "update", "rename", "set_system", "set_model", "set_draft", "delete", "undelete"]
PREFERENCE_READS = ["settings", "get", "history"]
PREFERENCE_CHANGES = ["save_settings", "change_settings", "set", "add_to_history"]


def refuses(*_: object, **__: object) -> None:
    raise EdgeLLMError("the disk is full; make room on it")


async def _everything(chat: Driven) -> None:
    """Do everything that keys can do."""
    screen = chat.screen
    await chat.type("two")
    screen.action_walk(-1)
    screen.action_regenerate()
    screen.action_clear()
    screen.action_chats()
    await chat.pilot.pause()
    sidebar = screen.query_one(Sidebar)
    for message in (Sidebar.Search("one"), Sidebar.Delete(1), Sidebar.Undo(), Sidebar.Rename(1, "x"), Sidebar.Open(1)):
        sidebar.post_message(message)
    for line in ("branch", "edit", "regen", "set temp 0.5", "reset", "model other", "system x", "save x", "clear"):
        screen.parts.frontend.run(f"/{line}")
    chat.app.theme = "nord" if chat.app.theme != "nord" else "textual-dark"
    await chat.pilot.pause()


def test_a_store_that_fails_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            failures = [
                (READS, PREFERENCE_READS),
                (CHANGES, []),
                ([], PREFERENCE_CHANGES),
                (["add"], []),
                (["new_chat", "put"], []),
            ]
            for calls, preference_calls in failures:
                with monkeypatch.context() as broken:
                    for call in calls:
                        broken.setattr(Store, call, refuses)
                    for call in preference_calls:
                        broken.setattr(Preferences, call, refuses)
                    await _everything(chat)
                await chat.until(
                    lambda: chat.app.controller.replies.running is None and chat.app.controller.model.opened
                )
                chat.screen.action_clear()
                await chat.say("three")
                assert chat.texts == ["three", "You said: three"], (calls, preference_calls)

    run(test())


def test_the_box_says_whether_a_model_comes(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            assert chat.composer.form.editor.placeholder.startswith("Say something")
            chat.app.controller.model.open("missing")
            await chat.until(lambda: chat.composer.form.editor.placeholder.startswith("No model is open"))

    run(test())
