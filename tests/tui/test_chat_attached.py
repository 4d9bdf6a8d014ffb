"""Files attached to a message: they are saved as typed text is, and can be removed."""

from pathlib import Path

from support.chat_app import Driven, chatting, run
from support.chat_fakes import FakeModel


def attached(chat: Driven) -> list[tuple[str, str]]:
    return [(file.name, file.text) for file in chat.composer.form.files]


def test_a_file_is_there_again_after_a_restart_as_its_text_is(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes")

    async def attach() -> None:
        async with chatting(tmp_path) as chat:
            await chat.type(f"/file {tmp_path}/notes.md")
            await chat.until(lambda: chat.composer.form.files)
            chat.composer.text = "what is in it?"
            await chat.pilot.pause(0.6)  # as if it were killed then
            kept = chat.app.controller.conversation.draft()
            assert (kept.text, kept.files) == ("what is in it?", (("notes.md", "# Notes"),))

    async def go_on() -> None:
        async with chatting(tmp_path) as chat:
            assert (chat.composer.text, attached(chat)) == ("what is in it?", [("notes.md", "# Notes")])
            await chat.press("enter")
            await chat.until(lambda: len(chat.texts) == 2 and chat.app.controller.replies.running is None)
            assert "# Notes" in chat.texts[0]
            assert chat.app.controller.conversation.draft().files == ()

    run(attach())
    run(go_on())


def test_files_stay_with_the_chat_that_they_were_attached_in(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("hello")
            first = chat.app.controller.conversation.chat.id
            chat.composer.form.attach("a.md", "A")
            await chat.press("ctrl+n")
            assert attached(chat) == []
            chat.composer.form.attach("b.md", "B")
            chat.screen.parts.drafts.switch(lambda: chat.app.controller.chats.open(first))
            assert attached(chat) == [("a.md", "A")]
            await chat.press("ctrl+n")
            assert attached(chat) == [("b.md", "B")]

    run(test())


def test_a_file_that_no_conversation_has_room_for_is_not_attached(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("word " * 200)
    (tmp_path / "small.txt").write_text("word " * 20)

    async def test() -> None:
        async with chatting(tmp_path, FakeModel(ctx=100)) as chat:
            await chat.type(f"/file {tmp_path}/small.txt {tmp_path}/large.txt")
            await chat.until(lambda: any("large.txt is not attached" in notice for notice in chat.notices))
            assert [name for name, _ in attached(chat)] == ["small.txt"]
            assert "the context has 100" in chat.notices[-1]

    run(test())


def test_how_a_file_is_taken_away_again_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            chat.composer.form.attach("a\x1b[2J\u202e.md", "A")
            await chat.pilot.pause()
            assert "backspace removes it" in chat.shown()
            assert "a\\x1b[2J\\u202e.md" in chat.shown()
            await chat.press("backspace")
            assert attached(chat) == []
            assert "removes it" not in chat.shown()

    run(test())
