"""The line of keys at the bottom of the chat."""

from pathlib import Path

from textual.geometry import Offset

from support.chat_app import chatting, run
from support.chat_fakes import FakeModel
from tui.chat.key_bar import KeyBar
from tui.instruments import Panel


def test_keys_are_those_that_do_something_now(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(replies=[["one ", "two"]], hold=1)) as chat:
            line = chat.screen.query_one(KeyBar)
            assert "New chat" in line.render().plain
            assert "Stop" not in line.render().plain
            await chat.type("count")
            await chat.until(chat.model.held.is_set)
            assert "esc Stop" in chat.shown().splitlines()[-1]
            chat.model.go.set()
            await chat.until(lambda: chat.app.controller.replies.running is None)
            assert "Stop" not in chat.shown().splitlines()[-1]

    run(test())


def test_a_click_presses_the_key(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=(120, 40)) as chat:
            line = chat.screen.query_one(KeyBar)
            await chat.pilot.click(line, offset=Offset(line.render().plain.index("Figures"), 0))
            assert chat.screen.query_one(Panel).display
            await chat.pilot.click(line, offset=Offset(119, 0))  # no key there: nothing happens
            assert chat.screen.query_one(Panel).display

    run(test())


def test_keys_from_the_config_file_are_shown(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=(120, 40)) as chat:
            chat.app.set_keymap({"chat.panel": "f9"})
            await chat.pilot.pause()
            assert "f9 Figures" in chat.shown()

    run(test())
