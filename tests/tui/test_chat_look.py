"""The look of the chat: when it is empty, on small and large screens, with all kinds of texts and terminals."""

import asyncio
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from support.chat_app import Driven, chatting, run
from support.chat_fakes import FakeBackend, FakeModel
from support.make_screenshot import screenshot
from tui.app import ChatApp
from tui.chat.key_bar import KeyBar
from tui.chat.welcome import Welcome
from tui.core.activity import Activity, Phase
from tui.core.store import Store
from tui.sidebar import Sidebar

pytestmark = pytest.mark.slow

_TEXTS = {
    "rtl": "שלום עולם, זה טקסט מימין לשמאל. مرحبا بالعالم، هذا نص من اليمين إلى اليسار.",
    "cjk": "記憶體頻寬決定了每個詞元的速度。日本語の長い文章は空白なしで続きます。" * 3,
    "emoji": "👩‍👩‍👧‍👦 family 🏳️‍🌈 flag 👍🏽 thumb 🇩🇪 land ❤️ heart 🧑🏿‍🚀",
    "combining": "e\u0301 a\u0300\u0301\u0302 Z̷̢̛a̸l̶g̷o̴ क्षि நி",
    "controls": "a\x1b[31mb\x07c\u202ed\u2066e\u200bf\r\ng\x9bh\x00i",
    "table": "| 名前 | 👍🏽 | شكرا |\n|---|---|---|\n| 東京 | é | مرحبا |\n\n```\n漢字 = 'שלום'\n```",
}


def torn(chat: Driven) -> list[str]:
    """The lines that are not as wide as the screen, or that contain control characters."""
    width = chat.app.size.width
    strips = chat.app.screen._compositor.render_strips()
    lines = ["".join(segment.text for segment in strip) for strip in strips]
    assert len(lines) == chat.app.size.height
    return [line for line in lines if cell_len(line) != width or re.search(r"[\x00-\x1f\x7f-\x9f]", line)]


def test_an_empty_chat_welcomes_and_steps_aside(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            welcome = chat.screen.query_one(Welcome)
            shown = chat.shown()
            assert welcome.display
            assert "● fake" in shown
            assert "4,096 tokens of context" in shown
            assert re.search(r"enter +send +\^l +earlier chats", shown)
            await chat.say("hello")
            assert not welcome.display
            await chat.press("ctrl+n")
            assert welcome.display

    run(test())


def test_the_welcome_names_the_keys_of_the_input_box_while_the_chats_are_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.press("ctrl+l")
            shown = chat.shown()
            assert re.search(r"enter +send", shown) and re.search(r"\^j +new line", shown)

    run(test())


def test_a_welcome_that_comes_while_the_chats_are_open_names_them_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("hi")
            number = chat.app.controller.conversation.chat.id
        async with chatting(tmp_path, chat=number) as chat:
            assert not chat.screen.query_one(Welcome).display
            await chat.press("ctrl+l", "delete")
            await chat.until(lambda: chat.screen.query_one(Welcome).display)
            assert re.search(r"enter +send", chat.shown())

    run(test())


def test_a_key_that_was_changed_is_named_so_in_the_welcome(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            chat.app.set_keymap({"chat.models": "f9"})
            await chat.until(lambda: re.search(r"f9 +other models", chat.shown()))

    run(test())


def test_the_welcome_reads_the_bindings_where_these_change_and_not_where_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            welcome, read = chat.screen.query_one(Welcome), list[object]()
            monkeypatch.setattr("tui.chat.welcome.keys_of", lambda screen, ids: read.append(ids) or {})
            for progress in "123":
                welcome.show(Activity(Phase.LOADING, "another", progress))
            assert not read
            await chat.press("ctrl+l")
            await chat.until(lambda: read)

    run(test())


def test_who_types_while_the_model_fails_to_open_goes_on_typing(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.press(*"half ")
            chat.app.controller.model.open("missing")
            await chat.until(lambda: any("no such model" in notice for notice in chat.notices))
            await chat.press(*"a line")
            assert chat.composer.text == "half a line"
            assert chat.app.screen is chat.screen
            await chat.press("ctrl+u")
            chat.app.controller.model.open("missing")
            await chat.until(lambda: chat.app.screen is not chat.screen)

    run(test())


def test_the_welcome_says_when_there_is_no_model(tmp_path: Path) -> None:
    async def test() -> None:
        app = ChatApp(Store(tmp_path / "chats.db"), FakeBackend(), "missing")
        try:
            async with app.run_test(size=(80, 24)) as pilot:
                chat = Driven(app, pilot, FakeModel())
                await chat.until(lambda: len(app.screen_stack) == 3)
                await chat.press("escape")
                await chat.until(lambda: "no model is open: f3 chooses one" in chat.shown())
        finally:
            app.controller.close()

    run(test())


def test_what_opens_a_model_without_a_template_can_be_typed_where_it_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        app = ChatApp(Store(tmp_path / "chats.db"), FakeBackend(), "base")
        try:
            async with app.run_test(size=(80, 24)) as pilot:
                chat = Driven(app, pilot, FakeModel())
                await chat.until(lambda: "/set template chatml lets it talk" in chat.shown())
                assert app.screen is chat.screen
                app.clear_notifications()
                await chat.until(lambda: not chat.notices)
                assert "/set template chatml lets it talk" in " ".join(chat.shown().split())
                await chat.press(*"/set", "space", *"template", "space", *"chatml", "enter")
                await chat.until(lambda: app.controller.model.opened)
                assert app.controller.model.name == "base"
        finally:
            app.controller.close()

    run(test())


def test_keys_below_are_whole_and_a_click_presses_one(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=(60, 20)) as chat:
            assert "Again" not in chat.shown()  # there is nothing yet to reply to
            await chat.say("hello")
            below = chat.shown().split("\n")[-1]
            assert below.split()[::2][:3] == ["^n", "chat", "Again"]
            assert below.split()[-1] in {"Settings", "Models", "Figures", "Help", "Quit"}
            await chat.pilot.click(KeyBar, offset=(below.index("Chats"), 0))
            await chat.until(lambda: chat.screen.query_one(Sidebar).display)

    run(test())


def test_stop_is_offered_while_there_is_something_to_stop(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["one ", "two"]], hold=1)) as chat:
            assert "esc Stop" not in chat.shown()
            await chat.type("count")
            await chat.until(lambda: "esc Stop" in chat.shown())
            chat.model.go.set()
            await chat.until(lambda: "esc Stop" not in chat.shown())

    run(test())


@pytest.mark.parametrize(
    "size",
    [
        (20, 40),
        (300, 20),
        (6, 4),
        *(pytest.param(size, marks=pytest.mark.exhaustive) for size in ((20, 10), (300, 90))),
    ],
    ids=str,
)
def test_a_screen_of_any_size_is_whole(tmp_path: Path, size: tuple[int, int]) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[[_TEXTS["table"]], ["short"]]), size=size) as chat:
            await chat.say("hello")
            assert not torn(chat)
            for keys in (["ctrl+t"], ["ctrl+b", "escape"], ["f4"], ["escape", "f1"], ["escape", "f3"], ["escape"]):
                await chat.press(*keys)
                assert not torn(chat)
            await chat.pilot.resize_terminal(80, 24)
            await chat.say("and now")
            assert "short" in chat.shown()
            assert not torn(chat)

    run(test())


@pytest.mark.parametrize("name", _TEXTS)
@pytest.mark.parametrize("width", [24, 80])
def test_text_of_any_script_tears_nothing(tmp_path: Path, name: str, width: int) -> None:
    async def test() -> None:
        text = _TEXTS[name]
        async with chatting(tmp_path, FakeModel(replies=[[*text], [*text]]), size=(width, 20)) as chat:
            for _ in range(2):
                await chat.say(text)
                assert not torn(chat)
                assert "\u202d" not in chat.shown()
            await chat.press("ctrl+b")
            assert not torn(chat)
            chat.composer.text = text
            await chat.press("left", "left", "backspace")
            assert not torn(chat)
            assert chat.app.controller.conversation.path[-1].text == text

    run(test())


def test_without_colours_nothing_is_coloured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("hello")
            assert not torn(chat)
            strips = [
                strip.apply_filter(line_filter, chat.app.background_colors[0])
                for strip in chat.app.screen._compositor.render_strips()
                for line_filter in chat.app._filters
            ]
            colours = {
                colour.triplet
                for strip in strips
                for _, style, _ in strip
                if style
                for colour in (style.color, style.bgcolor)
                if colour and colour.triplet
            }
            assert colours
            assert all(len({*triplet}) == 1 for triplet in colours)

    run(test())


def test_the_picture_for_the_readme_can_be_made(tmp_path: Path) -> None:
    svg = asyncio.run(screenshot(tmp_path))
    assert svg.startswith("<svg")
    assert "fastest" in svg
    assert "MBU" in svg


def test_a_notice_that_is_repeated_begins_anew(tmp_path: Path) -> None:
    async def test() -> None:
        app = ChatApp(Store(tmp_path / "chats.db"), FakeBackend(), "fake")
        async with app.run_test(size=(80, 24), notifications=True) as pilot:
            chat = Driven(app, pilot, FakeModel())
            await chat.until(lambda: app.controller.model.opened)
            await chat.type("/tools")
            await chat.until(lambda: "no commands; /tools FILE" in chat.shown())
            first = next(iter(app._notifications))
            await chat.type("/tools")
            await chat.until(lambda: app._notifications and first not in app._notifications)
            second = next(iter(app._notifications))
            assert chat.notices == [first.message] and second.raised_at > first.raised_at
            await chat.until(lambda: chat.shown().count("no commands; /tools FILE") == 1)
            app._unnotify(first)  # as the first one does at its end
            await pilot.pause()
            assert chat.shown().count("no commands; /tools FILE") == 1
        app.controller.close()

    run(test())


def test_a_notice_that_comes_twice_at_once_is_shown_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            chat.app.notify("twice")
            chat.app.notify("twice")
            await chat.until(lambda: chat.notices)
            assert chat.notices == ["twice"]

    run(test())
