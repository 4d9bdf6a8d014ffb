"""The log on the screen."""

from pathlib import Path

from support.chat_app import chatting, run
from tui.views.lines import Lines
from tui.views.log import LogScreen


def test_it_shows_the_end_and_where_the_file_lies(tmp_path: Path) -> None:
    async def test() -> None:
        log = tmp_path / "chat.log"
        log.write_text("".join(f"line {i} \x1b[2J\n" for i in range(40_000)))
        async with chatting(tmp_path, size=(80, 24)) as chat:
            await chat.app.push_screen(LogScreen(log))
            await chat.until(lambda: "line 39999 \\x1b[2J" in chat.shown())
            assert "chat.log" in chat.shown()
            lines = chat.app.screen.query_one(Lines)
            assert lines.virtual_size.height < 40_000
            await chat.press("home")
            await chat.until(lambda: lines.scroll_offset.y == 0)
            first = chat.shown().splitlines()[1].strip("│ ")
            assert first.startswith("line ")
            assert first.endswith("\\x1b[2J")

    run(test())


def test_it_is_read_again_by_a_key_and_copied(tmp_path: Path) -> None:
    async def test() -> None:
        log = tmp_path / "chat.log"
        async with chatting(tmp_path, size=(80, 24)) as chat:
            await chat.app.push_screen(LogScreen(log))
            await chat.until(lambda: "No such" in chat.shown())
            log.write_bytes(b"one\ntwo \xff\n")
            await chat.press("r")
            await chat.until(lambda: "two \ufffd" in chat.shown())
            await chat.press("c")
            assert chat.app.clipboard == "one\ntwo \ufffd"
            await chat.press("escape")
            assert chat.app.screen is chat.screen

    run(test())
