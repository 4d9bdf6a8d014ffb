"""The input box: what is typed is sent as it was meant, recalled, and never lost."""

import asyncio

import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.app import ComposeResult
from textual.pilot import Pilot

from support.composer_app import ComposerApp, drive, shown, type_text
from tui.composer import Attachment
from tui.composer.message_sent import MessageSent


def test_enter_sends_and_empties_the_box() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await type_text(pilot, "hello")
        await pilot.press("enter")
        assert app.posted == [MessageSent("hello", None, ())]
        assert app.box.text == ""

    drive(test)


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_nothing_is_not_sent(text: str) -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.text = text
        await pilot.press("enter")
        assert app.posted == []

    drive(test)


@pytest.mark.parametrize("key", ["ctrl+j", "alt+enter", "shift+enter"])
def test_a_new_line_does_not_send(key: str) -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await pilot.press("a", key, "b")
        assert app.box.text == "a\nb"
        await pilot.press("enter")
        assert app.sent() == ["a\nb"]

    drive(test)


def test_keys_are_rebound_by_their_ids() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await pilot.press("a", "enter", "b", "f9")
        assert app.sent() == ["a\nb"]

    drive(test, keymap={"composer.send": "f9", "composer.newline": "enter"})


def test_keys_that_come_in_a_bunch_act_in_their_order() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        for key in ["a", "x", "backspace", "b", "enter", "c", "ctrl+j", "d", "enter", "e"]:
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        await pilot.pause()
        assert app.sent() == ["ab", "c\nd"]
        assert app.box.text == "e"

    drive(test)


def test_it_grows_with_its_text_and_then_scrolls() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        heights = []
        for lines in (1, 3, 10, 40):
            app.box.text = "\n".join(["line"] * lines)
            await pilot.pause()
            heights.append(app.editor.size.height)
        assert heights == [1, 3, 10, 10]

    drive(test, size=(80, 60))


def test_it_takes_a_third_of_a_low_screen() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.text = "\n".join(["line"] * 40)
        await pilot.pause()
        assert app.editor.size.height == 8
        await pilot.resize_terminal(80, 12)
        await pilot.pause()
        assert app.editor.size.height == 4

    drive(test)


def test_long_lines_are_wrapped_in_a_narrow_screen() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.text = "日本語の文章をここに書く" * 2  # 24 characters of 2 cells each
        app.box.form.attach("a file with a very long name.txt", "text")
        app.box.edit(app.box.text, 1, "message 1")
        app.box.form.attach("a file with a very long name.txt", "text")
        await pilot.pause()
        rows = "".join(shown(app)).replace(" ", "").translate({ord(frame): "" for frame in "╭╮╰╯│─"})
        assert "日本語の文章をここに書く" * 2 in rows
        assert "averylongname.txt" in rows
        assert app.editor.size.height >= 3

    drive(test, size=(20, 24))


def test_characters_of_every_width_come_as_they_are_typed() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        for event in XTermParser().feed("日本é👨\u200d👧 می\u200cخواهم"):
            app.post_message(event)
        await pilot.press("home", "right", "right", "backspace", "enter")
        assert app.sent() == ["日é👨\u200d👧 می\u200cخواهم"]

    drive(test)


def test_keys_of_readline() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await type_text(pilot, "one two three")
        await pilot.press("ctrl+w")
        assert app.box.text == "one two "
        await pilot.press("ctrl+a", "x", "ctrl+e", "y")
        assert app.box.text == "xone two y"
        await pilot.press("ctrl+u")
        assert app.box.text == ""
        await pilot.press("ctrl+z")
        assert app.box.text == "xone two y"
        await pilot.press("ctrl+a", "right", "ctrl+k")
        assert app.box.text == "x"

    drive(test)


def test_keys_with_nothing_to_do_are_left_to_the_app() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+d", "escape", "pageup")
        assert app.left == ["ctrl+d", "escape", "pageup"]
        await pilot.press("a", "b", "left", "ctrl+d")
        assert app.left == ["ctrl+d", "escape", "pageup"]
        assert app.box.text == "a"

    drive(test)


def test_the_arrows_recall_what_was_sent_and_keep_what_is_typed() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.form.set_history(["first", "second"])
        await type_text(pilot, "draft")
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await pilot.press(key)
            seen.append(app.box.text)
        assert seen == ["second", "first", "first", "second", "draft", "draft"]

    drive(test)


def test_a_recalled_text_that_was_changed_stays_so_until_something_is_sent() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.form.set_history(["first", "second"])
        await pilot.press("up", "x", "up", "down")
        assert app.box.text == "secondx"
        await pilot.press("enter", "up", "up")
        assert app.sent() == ["secondx"]
        assert app.box.text == "second"

    drive(test)


def test_the_arrows_move_inside_a_text_first() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.form.set_history(["one\ntwo"])
        await pilot.press("a", "ctrl+j", "b", "up")
        assert app.box.text == "a\nb"
        await pilot.press("up")
        assert app.box.text == "one\ntwo"
        await pilot.press("down")
        assert app.box.text == "one\ntwo"
        await pilot.press("down")
        assert app.box.text == "a\nb"

    drive(test)


def test_what_is_sent_is_recalled_at_once() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await type_text(pilot, "/stats")
        await pilot.press("enter", "h", "i", "enter", "up")
        assert app.box.text == "hi"
        await pilot.press("up")
        assert app.box.text == "/stats"

    drive(test)


def test_what_is_put_away_comes_back_with_up() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        assert not app.box.form.put_away()
        app.box.form.set_history(["sent"])
        app.box.form.attach("notes.md", "notes")
        await type_text(pilot, "one")
        assert app.box.form.put_away()
        assert (app.box.text, [each.name for each in app.box.form.files]) == ("", ["notes.md"])
        await type_text(pilot, "two")
        await pilot.press("up")
        assert app.box.text == "one"
        assert app.box.form.put_away(), "one that is recalled only covers what is typed"
        assert app.box.text == "two"
        app.box.edit("a message", 1)
        await type_text(pilot, "!")
        assert app.box.form.put_away()
        assert (app.box.text, app.box.form.editing) == ("two", None)
        await pilot.press("up")
        assert app.box.text == "a message!"

    drive(test)


def test_editing_gives_back_what_was_typed() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await type_text(pilot, "draft")
        app.box.form.attach("a.txt", "A")
        app.box.edit("old words", 7, "message 3")
        await pilot.pause()
        assert any("editing message 3 · Esc cancels" in row for row in shown(app))
        await pilot.press("!", "enter")
        assert app.posted == [MessageSent("old words!", 7, ())]
        assert (app.box.text, app.box.form.editing) == ("draft", None)
        assert app.box.form.files == (Attachment("a.txt", "A"),)

    drive(test)


@pytest.mark.parametrize("message", ["/usr/bin is a folder", "/usr is a folder", "/", "// twice", "/several\nlines"])
def test_a_message_that_begins_with_a_slash_stays_one_when_it_is_edited(message: str) -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.edit(message, 7)
        await pilot.press("enter")
        assert app.posted == [MessageSent(message, 7, ())]

    drive(test)


def test_a_draft_may_be_put_in_before_the_box_is_shown() -> None:
    class Restored(ComposerApp):
        def compose(self) -> ComposeResult:
            self.box.text = "restored"
            self.box.form.attach("a.txt", "A")
            yield self.box

    async def test() -> None:
        async with Restored().run_test() as pilot:
            app = pilot.app
            assert isinstance(app, Restored)
            await pilot.press("!", "enter")
            assert app.posted == [MessageSent("restored!", None, (Attachment("a.txt", "A"),))]

    asyncio.run(test())


def test_escape_stops_editing_and_then_is_the_apps() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await type_text(pilot, "draft")
        app.box.edit("old", 7)
        app.box.edit("other", 8)
        await pilot.press("escape")
        assert app.posted == []
        assert (app.box.text, app.box.form.editing, app.left) == ("draft", None, [])
        assert not any("Esc cancels" in row for row in shown(app))
        await pilot.press("escape")
        assert app.left == ["escape"]

    drive(test)


def test_files_go_with_the_message() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.form.attach("a.txt", "1\n2\n")
        app.box.form.attach("b.txt", "one")
        app.box.form.attach("a.txt", "1\n2\n3")
        await pilot.pause()
        row = next(row for row in shown(app) if "b.txt" in row)
        chips = [chip.strip() for chip in row.strip().split("   ")]
        assert chips == ["b.txt, 1 line", "a.txt, 3 lines", "backspace removes the last"]
        await pilot.press("x", "backspace", "backspace", "enter")
        assert app.posted == [MessageSent("", None, (Attachment("b.txt", "one"),))]
        assert app.box.form.files == ()

    drive(test)


def test_a_draft_is_posted_soon_after_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.composer.composer._SAVE_AFTER_S", 0.01)

    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.form.set_history(["sent before"])
        await type_text(pilot, "dr")
        await pilot.pause(0.1)
        assert app.drafts[-1] == "dr"
        await pilot.press("up")
        await pilot.pause(0.1)
        assert app.drafts[-1] == "dr"  # what was sent is kept elsewhere, and what is typed would be lost
        await pilot.press("!")
        await pilot.pause(0.1)
        assert app.drafts[-1] == "sent before!"

    drive(test)


def test_the_placeholder_says_what_to_do() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        assert any("Type here" in row for row in shown(app))
        app.box.form.set_placeholder("Type while the model loads")
        await pilot.pause()
        assert any("Type while the model loads" in row for row in shown(app))

    drive(test)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
def test_what_is_typed_differs_from_what_is_behind_it(theme: str) -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.theme = theme
        await type_text(pilot, "visible")
        await pilot.pause()
        segments = [part for strip in app.screen._compositor.render_strips() for part in strip]
        style = next(part.style for part in segments if "visible" in part.text)
        assert style is not None
        assert style.color != style.bgcolor

    drive(test)


def test_what_waited_comes_back_behind_an_edit() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.queue.push(MessageSent("first", None, (Attachment("a.txt", "text"),)))
        app.box.queue.push(MessageSent("second", None, ()))
        app.box.text = "typed"
        app.box.edit("said before", 7)
        assert app.box.unsent == "first\n\nsecond\n\nsaid before\n\ntyped"
        app.box.queue.take_back()
        assert app.box.text == "said before"
        await pilot.press("escape")
        assert app.box.text == "first\n\nsecond\n\ntyped"
        assert [each.name for each in app.box.form.files] == ["a.txt"]

    drive(test)


def test_many_messages_that_wait_take_few_rows() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        for text in ("one\ntwo", "x" * 200, "three", "four", "five"):
            app.box.queue.push(MessageSent(text, None, ()))
        await pilot.pause()
        rows = [row.strip() for row in shown(app)]
        first = rows.index("one two")
        assert rows[first + 1].startswith("xxx")
        assert rows[first + 1].endswith("…")
        assert rows[first + 2 : first + 4] == ["three", "and 2 messages more"]

    drive(test)
