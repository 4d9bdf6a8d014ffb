"""The conversation by keyboard: scrolling, marking and copying messages, and back to the input box."""

from pathlib import Path

from textual.events import Key

from support.chat_app import chatting, run
from support.chat_fakes import FakeModel
from tui.transcript import Transcript

LONG = [f"line {number}\n\n" for number in range(60)]


def test_page_keys_scroll_from_the_box_and_a_new_message_is_followed(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[LONG, ["short"]])) as chat:
            await chat.say("hello")
            assert "line 59" in chat.shown()
            assert "more" not in chat.shown()
            await chat.press("pageup", "pageup")
            assert "line 59" not in chat.shown()
            assert "↓ more: ^end" in chat.shown()
            assert chat.composer.has_focus_within
            await chat.press("ctrl+home")
            assert "hello" in chat.shown()
            await chat.press("ctrl+end")
            assert "line 59" in chat.shown()
            assert "more" not in chat.shown()
            await chat.press("pageup", "pageup")
            await chat.say("and now?")
            assert chat.transcript.following
            assert "and now?" in chat.shown()

    run(test())


def test_escape_and_typing_lead_back_to_the_box(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("hello")
            reply = chat.app.controller.conversation.path[-1].id
            for back in ("escape", "alt+down", "h"):
                await chat.press("alt+up")
                assert (chat.transcript.selected, chat.transcript.has_focus) == (reply, True)
                assert "y Copy message" in chat.shown().splitlines()[-1]
                await chat.press(back)
                assert (chat.transcript.selected, chat.composer.has_focus_within) == (None, True)
            await chat.press("i", "alt+up", *" and more")
            assert chat.composer.text == "hi and more"
            await chat.press("alt+up")
            chat.app.screen.action_back()
            assert chat.composer.has_focus_within, (
                "at once: a key that is typed meanwhile may be one of the conversation"
            )

    run(test())


def test_an_edit_begins_in_the_box(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            await chat.press("alt+up", "alt+up", "f2")
            assert (chat.composer.text, chat.composer.has_focus_within) == ("one", True)

    run(test())


def test_of_a_marked_reply_the_message_before_it_is_edited(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            await chat.say("two")
            await chat.press("alt+up", "alt+up", "alt+up", "f2")
            assert chat.composer.text == "one"
            await chat.type("uno")
            await chat.until(lambda: chat.texts == ["uno", "You said: uno"])
            assert chat.transcript.selected is None

    run(test())


def test_keys_with_alt_are_no_letters_where_they_come_behind_an_escape(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("hello")
            await chat.press("a")
            for letter in "yz":
                chat.app.post_message(Key(f"alt+{letter}", letter))
                await chat.pilot.pause()
            assert chat.app.clipboard == "You said: hello"
            assert chat.composer.text == "a"
            await chat.press("alt+up")
            chat.app.post_message(Key("alt+z", "z"))
            await chat.press("b")
            assert chat.composer.text == "ab"

    run(test())


def test_what_is_typed_after_a_click_goes_into_the_box(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("hello")
            await chat.pilot.click(Transcript, offset=(5, 5))
            await chat.press(*"can you")
            assert chat.composer.text == "can you"
            assert chat.notices == []

    run(test())


def test_code_and_messages_are_copied_from_the_box(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["```\nx = 1\n```\n", "so"]])) as chat:
            await chat.say("hello")
            await chat.press("alt+c")
            assert chat.app.clipboard == "x = 1"
            await chat.press("alt+y")
            assert chat.app.clipboard == "```\nx = 1\n```\nso"
            assert chat.composer.has_focus_within

    run(test())


def test_ctrl_d_leaves_as_in_a_shell(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.press(*"ab", "left", "ctrl+d")
            assert chat.composer.text == "a"
            await chat.press("backspace")
            await chat.leave("ctrl+d")

    run(test())


def test_a_click_on_a_version_walks(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["first"], ["second"]])) as chat:
            await chat.say("hello")
            await chat.press("ctrl+r")
            await chat.until(lambda: chat.texts == ["hello", "second"] and chat.app.controller.replies.running is None)
            row, line = next((y, line) for y, line in enumerate(chat.shown().splitlines()) if "2/2" in line)
            await chat.pilot.click(offset=(line.index("‹"), row))
            assert chat.texts == ["hello", "first"]
            await chat.pilot.click(offset=(line.index("›"), row))
            assert chat.texts == ["hello", "second"]

    run(test())
