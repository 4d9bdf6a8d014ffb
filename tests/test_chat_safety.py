"""What nobody hopes for: fields that lie, paths that are none, a store that fails. No word is lost, nothing ends."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from chat_app import Driven, chatting, run
from chat_fakes import FakeBackend, FakeModel

from edgellm.errors import EdgeLLMError
from edgellm.gguf.printable import printable_lines
from tui import start
from tui.app import ChatApp
from tui.core.store import Store
from tui.plain import Plain
from tui.sidebar import Sidebar


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/file ~nobody-of-this-name/notes", "there is no such user"),
        ("/import ~nobody-of-this-name/chat.json", "there is no such user"),
        ("/export ~nobody-of-this-name/chat.md", "there is no such user"),
        ("/file /", "no file of text"),
        ("/file no-such-file", "No such file"),
        ("/chats 99999999999999999999", "give the number of a chat"),
        (f"/chats {'9' * 5000}", "give the number of a chat"),
        ("/chats 77", "open another one"),
    ],
)
def test_a_command_that_cannot_be_done_is_a_notice(tmp_path: Path, line: str, told: str) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.type(line)
            await chat.until(lambda: chat.notices)
            assert told in chat.notices[-1]

    run(test())


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            for command in ("/file", "/import", "/export"):
                chat.screen.command(f"{command} {name}")
            await chat.until(lambda: len(chat.notices) == 3)
            assert all("no file can have this name" in notice for notice in chat.notices)

    run(test())


def test_a_notice_is_plain_text(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            chat.app.notify("[red]one[/]\n\x1b]0;two\x07\u202e\x9b")
            chat.composer.notify("[red]three[/]")
            await chat.until(lambda: len(chat.notices) == 2)
            assert chat.notices == ["[red]one[/]\n\\x1b]0;two\\x07\\u202e\\x9b", "[red]three[/]"]
            assert not any(notice.markup for notice in chat.app._notifications)

    run(test())


def test_lines_that_are_harmless() -> None:
    assert printable_lines("one\n\x1b[2J two\r\n" + "x" * 500) == "one\n\\x1b[2J two\\r\n" + "x" * 500


def test_a_message_that_is_edited_does_not_go_to_another_chat(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            chat.composer.text = "begun"
            await chat.press("f2")
            chat.composer.text = "one, edited"
            await chat.press("ctrl+n")
            assert (chat.composer.text, chat.composer.editing) == ("", None)
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
            assert chat.app.desk.store.load(2).draft == ""

    run(test())


def test_an_edit_that_is_begun_is_kept_as_it_is_typed(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            chat.composer.text = "begun"
            await chat.press("f2")
            chat.composer.text = "one, edited"
            await chat.until(lambda: chat.app.desk.store.load(1).draft == "one, edited\n\nbegun")
            await chat.press("enter")
            await chat.until(lambda: len(chat.texts) == 2 and chat.app.desk.running is None)
            assert chat.composer.text == chat.app.desk.store.load(1).draft == "begun"

    run(test())


def test_what_the_store_refuses_comes_back_into_the_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            with monkeypatch.context() as broken:
                broken.setattr(Store, "add", refuses)
                chat.composer.attach("notes.md", "some notes")
                await chat.type("//two")
                await chat.until(lambda: chat.notices)
                assert chat.composer.text == "//two"
                assert [each.name for each in chat.composer.attachments] == ["notes.md"]
                await chat.press("f2")
                await chat.type("uno")
                await chat.until(lambda: len(chat.notices) > 1)
                assert (chat.composer.text, chat.composer.editing) == ("uno", 1)
                await chat.press("escape")
                assert chat.composer.text == "//two"
            await chat.press("enter")
            await chat.until(lambda: len(chat.texts) == 4 and chat.app.desk.running is None)
            assert chat.texts[2] == "notes.md:\n```\nsome notes\n```\n\n/two"

    run(test())


READS = ["chats", "load", "settings", "preference", "history"]
CHANGES = ["show", "update", "rename", "set_system", "set_model", "set_draft", "delete", "undelete", "fork"]
KEEPS = ["save_settings", "set_preference", "remember"]


def refuses(*_: object, **__: object) -> None:
    raise EdgeLLMError("the disk is full; make room on it")


async def _everything(chat: Driven) -> None:
    """Do what the keys do."""
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
        screen.command(f"/{line}")
    chat.app.theme = "nord" if chat.app.theme != "nord" else "textual-dark"
    await chat.pilot.pause()


def test_a_store_that_fails_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            for calls in (READS, CHANGES, KEEPS, ["add"], ["new_chat", "put"]):
                with monkeypatch.context() as broken:
                    for call in calls:
                        broken.setattr(Store, call, refuses)
                    await _everything(chat)
                await chat.until(lambda: chat.app.desk.running is None and chat.app.desk.opened)
                chat.screen.action_clear()
                await chat.say("three")
                assert chat.texts == ["three", "You said: three"], calls

    run(test())


def test_a_fault_of_the_chat_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))

    def run_broken(app: ChatApp) -> None:
        app._return_code = 1

    monkeypatch.setattr(ChatApp, "run", run_broken)
    with pytest.raises(EdgeLLMError, match=r"told in .*chat\.log; every message is kept"):
        start.start("fake", plain=False, resume=False)


def lines(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_the_box_says_whether_a_model_comes(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            assert chat.composer.placeholder.startswith("Say something")
            chat.app.desk.open_model("missing")
            await chat.until(lambda: chat.composer.placeholder.startswith("No model is open"))

    run(test())


Say = Callable[[str], tuple[str, str]]


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    def talk(text: str) -> tuple[str, str]:
        lines(text, monkeypatch)
        Plain(Store(tmp_path / "chats.db"), FakeBackend(FakeModel(replies=[]))).run("fake")
        return tuple(capsys.readouterr())

    return talk


def test_plain_replies_to_lines_and_keeps_them(plain: Say, tmp_path: Path) -> None:
    out, _ = plain('hello\n"""\ntwo\nlines\n"""\n')
    assert out == "You said: hello\nYou said: two\nlines\n"
    store = Store(tmp_path / "chats.db")
    assert [message.text for message in store.load(1).tree.path()][2] == "two\nlines"
    store.close()


def test_plain_answers_a_command_before_it_reads_the_next_line(plain: Say) -> None:
    out, err = plain("/tokens one two three\nhello\n/tokens\n/model missing\n/quit\nnever\n")
    assert out == "You said: hello\n"
    told = [err.find(text) for text in ("3 tokens", "4 of 4,096 tokens", "no such model")]
    assert -1 not in told
    assert told == sorted(told)


def test_plain_prints_nothing_that_a_terminal_acts_on(plain: Say) -> None:
    _, err = plain("/system \x1b[2J\n")
    assert "system prompt: \\x1b[2J" in err


def test_plain_tells_why_there_is_no_reply(plain: Say) -> None:
    out, err = plain("/model missing\nhello\n")
    assert out == ""
    assert "no model is open" in err.splitlines()[-1]
