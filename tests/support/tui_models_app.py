"""A small app around the picker, and waiting for what its threads bring."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, Static

from tui.models.model_list import ModelList
from tui.models.pull_status import PullStatus
from tui.models.screen import ModelsScreen


class PickerApp(App[None]):
    """Opens the picker and keeps what it is dismissed with."""

    def __init__(self, current: str | None = None) -> None:
        super().__init__()
        self.picker = ModelsScreen(current)
        self.chosen: list[str | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.picker, self.chosen.append)

    @property
    def lines(self) -> list[str]:
        """What the screen shows."""
        strips = self.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self.lines)

    @property
    def pointed(self) -> str | None:
        """The name of the row that is highlighted."""
        row = self.picker.query_one(ModelList).row
        return row.name if row else None

    @property
    def pulling(self) -> str:
        """The line about a pull, empty where none is shown."""
        line = self.picker.query_one(PullStatus)
        return str(line.query_one(Static).render()) if line.display else ""


Play = Callable[[PickerApp, Pilot[None]], Awaitable[None]]


def play(script: Play, size: tuple[int, int] = (100, 30), current: str | None = None) -> PickerApp:
    """Run a script with the app."""
    app = PickerApp(current)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await script(app, pilot)

    asyncio.run(run())
    return app


async def until(pilot: Pilot[Any], holds: Callable[[], object]) -> None:
    """Wait for what a thread brings."""
    end = monotonic() + 30
    while not holds():
        assert monotonic() < end, "it never came"
        await pilot.pause(0.01)
    await pilot.pause()


async def enter(app: PickerApp, pilot: Pilot[None], text: str) -> None:
    """Type a text in one go, once all models are known, and press Enter."""
    await complete(app, pilot)
    app.picker.query_one(Input).value = text
    await pilot.pause()
    await pilot.press("enter")


async def some_of_it(app: PickerApp, pilot: Pilot[None]) -> None:
    """Wait until the screen shows that a part of a pull has come."""
    await until(pilot, lambda: "% of" in app.pulling and ": 0% of" not in app.pulling)


async def complete(app: PickerApp, pilot: Pilot[None]) -> None:
    """Wait until all models are known."""
    await settled(app.picker, pilot)


async def settled(picker: ModelsScreen, pilot: Pilot[Any]) -> None:
    """The same for any picker."""
    await until(pilot, lambda: picker._catalog.complete)
