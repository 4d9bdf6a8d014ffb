"""The status line and the panel on a screen, with frozen numbers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from textual.app import App, ComposeResult
from textual.color import Color
from textual.containers import Horizontal
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Static

from edgellm.generate.guided_stats import GuidedStats
from support.instrument_readings import DECODE, DONE, FRESH, LOADING, MEMORY, PREFILL, WRITING_REPLY
from tui.core.activity import Activity
from tui.instruments.metric_row import MetricRow
from tui.instruments.panel import Panel
from tui.instruments.status_line import StatusLine


class Screenful(App[None]):
    """The instruments where the chat has them."""

    CSS = "Static { width: 1fr; }"

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static()
            yield Panel()
        yield StatusLine()

    def show(self, activity: Activity) -> None:
        self.query_one(Panel).show(activity, MEMORY)
        self.query_one(StatusLine).show(activity, MEMORY)


def on_screen(check: Callable[[Screenful, Pilot[None]], Awaitable[None]], width: int, height: int = 24) -> None:
    async def run() -> None:
        app = Screenful()
        async with app.run_test(size=(width, height)) as pilot:
            await check(app, pilot)

    asyncio.run(run())


def drawn(widget: Widget) -> list[str]:
    """What the terminal shows of a widget."""
    lines = widget.screen._compositor.render_strips(widget.screen.size)
    region = widget.region
    return [lines[y].crop(region.x, region.right).text for y in range(region.y, region.bottom)]


@pytest.mark.parametrize(
    ("width", "activity", "line"),
    [
        (40, LOADING, " ◌ loading  compiling 3 of 12 kernels   "),
        (40, DECODE, " ▼ writing   45.3 t/s      context  53% "),
        (80, PREFILL, " ▲ reading  TTFT 1.24 s  ━━━━━━── 1,536 of 2,048  13 s left        context  38% "),
        (80, DECODE, " ▼ writing  TTFT 0.21 s   45.3 t/s  ▅▅▅▅▅▅▅▅    context ━━━━──── 2,176 of 4,096 "),
        (
            120,
            DONE,
            " ● ready    TTFT 0.21 s  mean  44.9 t/s  p50  22 p95  24 ms  MBU 0.84"
            "       qwen3-1.7b  context ━━━━──── 2,176 of 4,096 ",
        ),
    ],
)
def test_the_status_line_is_one_line(width: int, activity: Activity, line: str) -> None:
    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        app.show(activity)
        await pilot.pause()
        assert drawn(app.query_one(StatusLine)) == [line]

    on_screen(check, width)


def test_the_line_says_less_when_the_screen_narrows_and_more_again() -> None:
    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        line = app.query_one(StatusLine)
        app.show(DECODE)
        await pilot.pause()
        wide = drawn(line)
        await pilot.resize_terminal(40, 24)
        await pilot.pause()
        assert drawn(line) == [" ▼ writing   45.3 t/s      context  53% "]
        await pilot.resize_terminal(120, 24)
        await pilot.pause()
        assert drawn(line) == wide

    on_screen(check, 120)


def test_the_panel_on_a_high_screen() -> None:
    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        app.show(DECODE)
        await pilot.pause()
        panel = [line[1:-1].rstrip() for line in drawn(app.query_one(Panel))]
        assert panel[:33] == [
            "qwen3-1.7b",
            "▼ writing",
            "",
            "Prompt",
            "━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━",
            "read              2,048 of 2,048",
            "left                           –",
            "prefill                310.5 t/s",
            "TTFT                      0.21 s",
            "reused            1,912 of 2,048",
            "diverged at          token 1,912",
            "…template date",
            "",
            "Reply",
            "            ▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅",
            "now                     45.3 t/s",
            "mean                    44.9 t/s",
            "ITL p50 / p95        22 /  24 ms",
            "MBU                         0.84",
            "",
            "Context",
            "━━━━━━━━━━━━━━━━━───────────────",
            "used         2,176 of 4,096  53%",
            "when full                   stop",
            "dropped                        –",
            "",
            "Machine",
            "threads                        2",
            "blocks on the GPU       12 of 28",
            "model in memory                –",
            "memory used              1.21 GB",
            "memory free              5.23 GB",
            "",
        ]

    on_screen(check, 120, 40)


@pytest.mark.parametrize(("height", "lines_between"), [(33, 4), (31, 0), (24, 0)])
def test_a_short_screen_leaves_out_the_space_first(height: int, lines_between: int) -> None:
    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        app.show(DECODE)
        await pilot.pause()
        panel = app.query_one(Panel)
        assert panel.virtual_size.height == max(28 + lines_between, height - 1)
        panel.scroll_end(animate=False)
        await pilot.pause()
        assert any("memory free" in line for line in drawn(panel))

    on_screen(check, 80, height)


def test_only_what_changed_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        app.show(DECODE)
        await pilot.pause()
        again: list[str | None] = []
        monkeypatch.setattr(MetricRow, "refresh", lambda row, **_: again.append(row.name))
        monkeypatch.setattr(StatusLine, "refresh", lambda *_: again.append("line"))
        app.show(replace(DECODE, live=replace(WRITING_REPLY, elapsed_s=3.3)))
        assert again == []
        app.show(replace(DECODE, live=replace(WRITING_REPLY, recent_tps=46.0)))
        assert again == ["now", "line"]

    on_screen(check, 80)


def test_what_a_schema_excluded_has_a_row_while_it_is_known() -> None:
    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        stats = replace(WRITING_REPLY.stats, guided=GuidedStats(9, 0.25, 1.0, 3))
        app.show(replace(DECODE, live=replace(WRITING_REPLY, stats=stats)))
        await pilot.pause()
        assert any(
            "guide excluded" in line and line.rstrip().endswith("25% / 100%") for line in drawn(app.query_one(Panel))
        )
        app.show(DECODE)
        await pilot.pause()
        assert "guide excluded" not in "\n".join(drawn(app.query_one(Panel)))

    on_screen(check, 80, 40)


def test_a_new_chat_empties_the_figures() -> None:
    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        app.show(DECODE)
        app.show(FRESH)
        await pilot.pause()
        text = "\n".join(drawn(app.query_one(Panel)))
        assert "45.3" not in text and "▅" not in text
        assert "    0 of 4,096   0%" in text

    on_screen(check, 80, 40)


def test_every_row_explains_itself() -> None:
    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        meanings = {row.name: str(row.tooltip or "") for row in app.query(MetricRow)}
        assert all(meanings.values())
        assert "Memory bandwidth" in meanings["mbu"]
        assert "MBU: Memory bandwidth" in str(app.query_one(StatusLine).tooltip)

    on_screen(check, 80)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "nord", "solarized-light"])
def test_labels_are_quieter_than_their_figures(theme: str) -> None:
    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        app.theme = theme
        app.show(DECODE)
        await pilot.pause()
        colours = {}
        for segment in app.query_one(StatusLine).render_line(0):
            assert segment.style is not None and segment.style.color is not None and segment.style.bgcolor is not None
            back, front = (Color.from_rich_color(c) for c in (segment.style.bgcolor, segment.style.color))
            colours[segment.text.strip()] = abs(front.brightness - back.brightness)
        assert 0.2 < colours["TTFT"] < colours["45.3 t/s"]

    on_screen(check, 80)


def test_without_colours_the_gauge_is_a_line_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def check(app: Screenful, pilot: Pilot[None]) -> None:
        app.show(replace(DECODE, live=replace(WRITING_REPLY, context_used=4000)))
        await pilot.pause()
        assert app.no_color
        assert "context ━━━━━━━╸ 4,000 of 4,096" in drawn(app.query_one(StatusLine))[0]

    on_screen(check, 80)
