"""An app with nothing in it but the input box, to try its keys in."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from textual import on
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Static

from tui.composer import Composer
from tui.composer.editor import Editor
from tui.composer.message_sent import MessageSent


class ComposerApp(App[None]):
    """It keeps what the box posts, and counts the keys that the box leaves to the app."""

    CSS = "Static#above { height: 1fr; }"
    BINDINGS = [("escape", "left('escape')"), ("ctrl+d", "left('ctrl+d')"), ("pageup", "left('pageup')")]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.box = Composer("Type here")
        self.posted: list[Message] = []
        self.left: list[str] = []
        self.drafts: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("above", id="above")
        yield self.box

    def on_mount(self) -> None:
        self.box.focus()

    @property
    def editor(self) -> Editor:
        return self.query_one(Editor)

    def action_left(self, key: str) -> None:
        self.left.append(key)

    @on(MessageSent)
    @on(Composer.CommandSent)
    def keep(self, message: Message) -> None:
        self.posted.append(message)

    @on(Composer.DraftChanged)
    def keep_draft(self, message: Composer.DraftChanged) -> None:
        self.drafts.append(message.text)

    def sent(self) -> list[str]:
        return [message.text for message in self.posted if isinstance(message, MessageSent)]

    def commands(self) -> list[str]:
        return [message.line for message in self.posted if isinstance(message, Composer.CommandSent)]


def drive(
    test: Callable[[ComposerApp, Pilot[None]], Awaitable[Any]],
    size: tuple[int, int] = (80, 24),
    keymap: Mapping[str, str] | None = None,
) -> None:
    """Run the app on a screen of so many columns and rows, and `test` in it."""

    async def run() -> None:
        app = ComposerApp()
        app.set_keymap(keymap or {})
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await test(app, pilot)

    asyncio.run(run())


async def type_text(pilot: Pilot[None], text: str) -> None:
    """Press a key for each character."""
    await pilot.press(*text)


def shown(app: ComposerApp) -> list[str]:
    """What is on the screen, row by row."""
    return [strip.text for strip in app.screen._compositor.render_strips()]
