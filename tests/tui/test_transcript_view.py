"""The transcript on a screen: following, scrolling, resizing, selecting, copying."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from tui.transcript import Transcript, TranscriptEntry, cache
from tui.transcript.blocks import Block, PlainText, block_lines
from tui.transcript.copying import answer_code
from tui.transcript.entry_blocks import EntryBlocks
from tui.transcript.lines import Line
from tui.transcript.streamed_markdown import StreamedMarkdown
from tui.transcript.styles import TranscriptStyles

REPLY = "Some **words**.\n\n- one\n- two\n\n```python\nx = 1\n```\n\n> quote\n\nA long line: " + "word " * 30
CHAT = [
    TranscriptEntry(key, "user" if key % 2 else "assistant", f"number {key}\n\n" + REPLY * (key % 5))
    for key in range(1, 201)
]


class Host(App[None]):
    """An application with nothing but the transcript, which keeps the messages that come from it."""

    def __init__(self, entries: Sequence[TranscriptEntry]) -> None:
        super().__init__()
        self.entries = entries
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield Transcript()

    def on_mount(self) -> None:
        self.query_one(Transcript).show(self.entries)
        self.query_one(Transcript).focus()

    def on_transcript_walk(self, message: Transcript.Walk) -> None:
        self.posted.append(message)

    def on_transcript_selected(self, message: Transcript.Selected) -> None:
        self.posted.append(message)

    def on_transcript_following(self, message: Transcript.Following) -> None:
        self.posted.append(message)


Test = Callable[[Host, Transcript, Pilot[None]], Awaitable[None]]


def on_screen(entries: Sequence[TranscriptEntry], test: Test, size: tuple[int, int] = (80, 24)) -> None:
    async def run() -> None:
        app = Host(entries)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await test(app, app.query_one(Transcript), pilot)

    asyncio.run(run())


def seen(view: Transcript) -> list[str]:
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def test_a_reply_that_streams_looks_like_one_that_was_there_at_once_and_its_end_is_seen() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        for end in range(0, len(REPLY * 3), 17):
            view.set_text(2, (REPLY * 3)[:end])
            await pilot.pause(0)
        view.replace(TranscriptEntry(2, "assistant", REPLY * 3, stats="45 t/s"))
        streamed = seen(view)
        assert streamed[-1].strip() == "45 t/s"
        view.show([])
        view.show([TranscriptEntry(1, "user", "Hi"), TranscriptEntry(2, "assistant", REPLY * 3, stats="45 t/s")])
        assert seen(view) == streamed

    on_screen([TranscriptEntry(1, "user", "Hi"), TranscriptEntry(2, "assistant", "", running=True)], test)


def test_scrolling_up_stops_following_and_the_end_begins_it_again() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        assert view.following
        await pilot.press("pageup")
        assert not view.following
        before = seen(view)
        view.set_text(200, CHAT[-1].text + "\n\nmore" * 50)
        await pilot.pause()
        assert seen(view) == before
        await pilot.press("end")
        assert view.following
        assert seen(view)[-1].strip() == "more"
        await pilot.press("up")
        await pilot.press("down")
        assert view.following
        assert [message.following for message in app.posted if isinstance(message, Transcript.Following)] == [
            *(False, True, False, True)
        ]

    on_screen(CHAT, test)


@pytest.mark.parametrize("width", [30, 80, 150])
def test_scrolling_moves_what_is_seen_by_the_lines_asked_for(width: int) -> None:
    """Over entries whose heights are guesses until they come into view."""

    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        for step in [-1] * 40 + [-3] * 40 + [-20] * 10 + [3] * 30:
            before = seen(view)
            view.scroll_y += step
            after = seen(view)
            assert after[-step:] == before[:step] if step < 0 else after[:-step] == before[step:]

    on_screen(CHAT, test, (width, 24))


def test_a_resize_keeps_the_place() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        view.scroll_to(y=900)
        await pilot.pause()
        while "number" not in (heading := seen(view)[0]):
            view.scroll_y -= 1
        for width in (40, 120, 33, 80):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()
            assert seen(view)[0] == heading

    on_screen(CHAT, test)


def test_only_what_is_seen_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[Block] = []

    def counted(block: Block, styles: TranscriptStyles, width: int) -> list[Line]:
        rendered.append(block)
        return block_lines(block, styles, width)

    monkeypatch.setattr(cache, "block_lines", counted)

    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        assert len(rendered) < 40
        rendered.clear()
        text = REPLY * 50
        view.show([*CHAT, TranscriptEntry(300, "assistant", text, running=True)])
        rendered.clear()
        view.set_text(300, text + " and more")
        assert len(rendered) == 1

    on_screen(CHAT, test)


def test_a_change_of_all_entries_parses_only_what_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a long conversation outgrows the context."""
    parsed: list[str] = []
    update = StreamedMarkdown.update

    def counted(document: StreamedMarkdown, text: str, running: bool) -> None:
        parsed.append(text)
        update(document, text, running)

    monkeypatch.setattr(StreamedMarkdown, "update", counted)

    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        parsed.clear()
        view.show([replace(entry, unseen=True) for entry in CHAT])
        await pilot.pause()
        assert 0 < len(parsed) < 20

    on_screen(CHAT, test)


def test_lines_are_kept_for_what_was_shown_last(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[Block] = []

    def counted(block: Block, styles: TranscriptStyles, width: int) -> list[Line]:
        rendered.append(block)
        return block_lines(block, styles, width)

    monkeypatch.setattr(cache, "block_lines", counted)
    kept, blocks = (
        cache.LineCache(TranscriptStyles.plain(), 80),
        [PlainText(f"{number}\nsecond") for number in range(5_000)],
    )
    for block in blocks:
        kept.lines(block)
    rendered.clear()
    for block in blocks[-1_000:]:
        kept.lines(block)
    assert rendered == []
    assert len(kept.lines(blocks[0])) == 2
    assert rendered == [blocks[0]]


def test_messages_are_selected_with_keys_and_come_into_view() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        for key in range(200, 190, -1):
            await pilot.press("alt+up")
            assert view.selected == key
            assert any(f"number {key}" in line and line.startswith("┃") for line in seen(view))
        await pilot.press(*["alt+down"] * 10)
        assert view.selected is None
        assert view.following
        keys = [message.key for message in app.posted if isinstance(message, Transcript.Selected)]
        assert keys == [*range(200, 190, -1), *range(192, 201), None]

    on_screen(CHAT, test)


def test_code_and_messages_are_copied_as_written() -> None:
    text = "<think>\n```\nno\n```\n</think>\nText\n```sh\nls\t-l\n\n```\n- item\n  ```\n  nested\n  ```\n"

    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        assert answer_code(TranscriptEntry(2, "assistant", text)) == ["ls\t-l\n", "nested"]
        for key, copied in (("c", "nested"), ("1", "ls\t-l\n"), ("2", "nested"), ("y", "Bye  **now**")):
            await pilot.press(key)
            assert app.clipboard == copied
        await pilot.press("alt+up", "alt+up", "y")
        assert app.clipboard == text.partition("</think>")[2].strip()
        line = next(y for y, line in enumerate(seen(view)) if "copy 1" in line)
        await pilot.click(offset=(20, line))
        assert app.clipboard == "ls\t-l\n"

    on_screen(
        [
            TranscriptEntry(1, "user", "Hi"),
            TranscriptEntry(2, "assistant", text),
            TranscriptEntry(3, "user", "Bye  **now**"),
        ],
        test,
    )


def test_of_a_reply_that_is_calls_alone_these_are_copied() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        await pilot.press("y")
        assert app.clipboard == "clock {}\nweather {}"
        await pilot.press("alt+up", "alt+up", "y")
        assert app.clipboard == "clock {}\nweather {}"
        assert "This message has no text to copy." in [notice.message for notice in app._notifications]

    calls = ("calls clock() · no result", "clock {}"), ("calls weather() · no result", "weather {}")
    on_screen([TranscriptEntry(1, "assistant", ""), TranscriptEntry(2, "assistant", "", calls=calls)], test)


def test_a_long_message_is_folded_in_its_middle_until_it_is_opened() -> None:
    text = "\n".join(f"line {number}" for number in range(1, 101))

    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        said = [line.removeprefix("▎").strip() for line in seen(view) if line.removeprefix("▎").strip()]
        head, tail = [f"line {number}" for number in range(1, 13)], [f"line {number}" for number in range(93, 101)]
        assert said[1:] == [*head, "▸ 80 more lines", *tail]
        await pilot.press("y")
        assert app.clipboard == text
        await pilot.press("t", "end")
        shown = seen(view)
        assert any("line 92" in line for line in shown) and not any("▸" in line for line in shown)
        await pilot.press("home")
        assert any("▾ 100 lines" in line for line in seen(view))

    on_screen([TranscriptEntry(1, "user", text)], test)


def test_a_thought_is_folded_until_it_is_opened() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        assert "  ▸ thinking: 2 words" in seen(view)
        view.replace(TranscriptEntry(1, "assistant", "<think>\nSome deep words\n</think>\n\nThe answer"))
        folded = seen(view)
        assert [line.strip() for line in folded if line][1:] == ["▸ thought for 3 words", "The answer"]
        await pilot.press("t")
        assert [line.strip() for line in seen(view) if line][1:] == [
            "▾ thought for 3 words",
            "Some deep words",
            "The answer",
        ]
        await pilot.click(offset=(5, next(y for y, line in enumerate(seen(view)) if "▾" in line)))
        assert seen(view) == folded

    on_screen([TranscriptEntry(1, "assistant", "<think>\nSome deep</thi", running=True)], test)


def test_a_click_on_the_version_marker_asks_for_another_version() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        line = next(y for y, line in enumerate(seen(view)) if "2/3" in line)
        at = seen(view)[line].index("‹")
        await pilot.click(offset=(at, line))
        await pilot.click(offset=(at + 6, line))
        assert [(message.key, message.step) for message in app.posted if isinstance(message, Transcript.Walk)] == [
            *((7, -1), (7, 1))
        ]

    on_screen([TranscriptEntry(7, "assistant", "Hello", version=2, versions=3)], test)


def test_what_the_mouse_selects_is_copied_without_decoration_and_line_breaks_of_the_screen() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        lines = seen(view)
        start = next(y for y, line in enumerate(lines) if "item" in line)
        end = next(y for y, line in enumerate(lines) if "code" in line)
        await pilot.mouse_down(offset=(lines[start].index("item"), start))
        await pilot.hover(offset=(5, start + 1))
        await pilot.hover(offset=(lines[end].index("code") + 3, end))
        await pilot.mouse_up(offset=(lines[end].index("code") + 3, end))
        assert view.screen.get_selected_text() == "item " + "word " * 30 + "end\n\ncode"

    text = "- item " + "word " * 30 + "end\n\n```text\ncode line\n```\n"

    on_screen([TranscriptEntry(1, "assistant", text)], test)


def test_what_a_user_wrote_is_shown_as_it_is() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        assert [line for line in seen(view) if line] == ["▎ You", "▎ # no title", "▎   - *a*  b", "▎ ␛[31m"]

    on_screen([TranscriptEntry(1, "user", "# no title\n  - *a*  b\n\x1b[31m")], test)


def test_another_theme_changes_the_colours() -> None:
    async def test(app: Host, view: Transcript, pilot: Pilot[None]) -> None:
        def colours() -> set[str]:
            parts = (part for strip in view.render_lines(view.size.region) for part in strip)
            return {part.style.color.name for part in parts if part.style and part.style.color}

        dark = colours()
        app.theme = "textual-light"
        await pilot.pause()
        assert not dark & colours()

    on_screen([TranscriptEntry(1, "assistant", REPLY)], test)


def test_a_call_is_one_line_until_it_is_opened() -> None:
    call = 'called weather(city="東京 \u202e") · 2 lines', 'weather {\n  "city": "東京"\n}'
    reply = TranscriptEntry(1, "assistant", "Let me see.", calls=(("calls clock() · no result", "clock {}"), call))
    entries = [EntryBlocks(reply), EntryBlocks(TranscriptEntry(2, "tool", "wet\x1b[2J\n" * 100, calls=(call,)))]
    styles = TranscriptStyles.plain()

    def shown(content: EntryBlocks) -> list[str]:
        return [line.text for block in content.blocks for line in block_lines(block, styles, 20)]

    assert shown(entries[0])[-2:] == ["▸ calls clock() · n…", "▸ called weather(ci…"]
    assert shown(entries[1]) == ["", "▸ called weather(ci…"]
    for content in entries:
        assert content.has_folds
        content.toggle_fold()
        assert '  "city": "東京"' in shown(content) and not any("\x1b" in line for line in shown(content))
    assert shown(entries[1]).count("wet␛[2J") == 100
