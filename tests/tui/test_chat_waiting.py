"""Messages sent while a reply is written: they follow the reply, or return into the input box of their chat."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.chat_app import Driven, chatting, run
from support.chat_fakes import FakeModel
from tui.composer.message_sent import MessageSent


@asynccontextmanager
async def writing(folder: Path, first: list[str] | None = None, *others: list[str]) -> AsyncIterator[Driven]:
    """The app with a reply that waits after its first piece; `chat.model.go` lets all replies go on."""
    replies = [first or ["one ", "two"], *others]
    async with chatting(folder, FakeModel(replies=replies, hold=1)) as chat:
        await chat.type("count")
        await chat.until(chat.model.held.is_set)
        yield chat


async def end(chat: Driven) -> None:
    """Let all replies end."""
    chat.model.go.set()
    await chat.until(lambda: chat.app.controller.replies.running is None)


def test_they_follow_it_in_their_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with writing(tmp_path, ["one ", "two"], ["three"], ["four"]) as chat:
            await chat.type("and more")
            await chat.type("and then?")
            chat.composer.text = "being typed"
            await chat.pilot.pause()
            assert "and more" in chat.shown()
            assert chat.texts == ["count", ""]
            chat.model.go.set()
            await chat.until(lambda: len(chat.texts) == 6 and chat.app.controller.replies.running is None)
            assert chat.texts == ["count", "one two", "and more", "three", "and then?", "four"]
            assert chat.composer.text == "being typed"
            assert "Up takes" not in chat.shown()

    run(test())


@pytest.mark.parametrize("key", ["escape", "up", "ctrl+c"])
@pytest.mark.parametrize("typed", ["", "half"])
def test_they_come_back_before_what_is_typed(tmp_path: Path, key: str, typed: str) -> None:
    async def test() -> None:
        async with writing(tmp_path) as chat:
            await chat.type("and more")
            await chat.type("/etc/hosts is what?")
            await chat.press(*typed, key)
            await end(chat)
            assert len(chat.texts) == 2
            assert chat.composer.text == "\n\n".join(filter(None, ["and more", "/etc/hosts is what?", typed]))

    run(test())


def test_they_come_back_instead_of_a_message_that_is_recalled(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["a"], ["one ", "two"]], hold=1)) as chat:
            await chat.say("before")
            await chat.type("count")
            await chat.until(chat.model.held.is_set)
            await chat.press(*"half", "up")
            assert chat.composer.text == "count"
            chat.composer.queue.push(MessageSent("and more", None, ()))
            await chat.press("escape")
            assert chat.composer.text == "and more\n\nhalf"
            await end(chat)

    run(test())


def test_they_come_back_where_the_reply_breaks_off(tmp_path: Path) -> None:
    async def test() -> None:
        async with writing(tmp_path, ["one ", "BREAK"]) as chat:
            await chat.type("and more")
            chat.composer.text = "typed since"
            await end(chat)
            assert len(chat.texts) == 2
            assert chat.composer.text == "and more\n\ntyped since"

    run(test())


def test_they_come_back_where_another_version_is_shown(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["first"], ["one ", "two"]], hold=1)) as chat:
            await chat.say("count")
            await chat.press("ctrl+r")
            await chat.until(chat.model.held.is_set)
            await chat.type("about the second")
            await chat.press("alt+left")
            assert chat.texts == ["count", "first"]
            assert chat.composer.text == "about the second"
            await end(chat)
            assert chat.texts == ["count", "first"]

    run(test())


@pytest.mark.parametrize("text", ["and more", "//regen is what?"])
def test_they_stay_with_their_chat_as_a_draft(tmp_path: Path, text: str) -> None:
    async def test() -> None:
        async with writing(tmp_path) as chat:
            await chat.type(text)
            first = chat.app.controller.conversation.chat.id
            await chat.press("ctrl+n")
            assert chat.composer.text == ""
            chat.model.go.set()
            chat.screen.parts.drafts.switch(lambda: chat.app.controller.chats.open(first))
            await chat.until(lambda: chat.app.controller.replies.running is None)
            assert len(chat.texts) == 2
            assert chat.composer.text == text

    run(test())


@pytest.mark.parametrize("key", ["escape", "ctrl+n"])
def test_their_files_stay_with_the_chat_though_they_have_one_name(tmp_path: Path, key: str) -> None:
    async def test() -> None:
        async with writing(tmp_path) as chat:
            for content in ("AAA", "BBB"):
                chat.composer.form.attach("config.json", content)
                await chat.type("see " + content)
            left = chat.app.controller.conversation.chat.id
            await chat.press(key)
            if chat.app.controller.conversation.chat.id != left:
                assert chat.composer.form.files == ()
                chat.screen.parts.drafts.switch(lambda: chat.app.controller.chats.open(left))
            files = [(file.name, file.text) for file in chat.composer.form.files]
            assert files == [("config.json", "AAA"), ("config.json", "BBB")]
            await end(chat)

    run(test())


def test_who_reads_meanwhile_reads_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with writing(tmp_path, ["line\n\n" * 60, "two"], ["three"]) as chat:
            await chat.type("and more")
            await chat.press("pageup", "pageup", "alt+up")
            marked, at = chat.transcript.selected, chat.transcript.scroll_offset
            assert not chat.transcript.following
            chat.model.go.set()
            await chat.until(lambda: len(chat.texts) == 4 and chat.app.controller.replies.running is None)
            assert (chat.transcript.selected, chat.transcript.has_focus) == (marked, True)
            assert (chat.transcript.scroll_offset, chat.transcript.following) == (at, False)

    run(test())
