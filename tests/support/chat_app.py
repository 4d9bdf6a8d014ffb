"""The chat with a fake model, driven by keys."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from support.chat_fakes import FakeBackend, FakeModel
from tui.app import ChatApp
from tui.chat.screen import ChatScreen
from tui.composer import Composer
from tui.core.store import Store
from tui.transcript import Transcript


@dataclass
class Driven:
    """A running app with the parts that tests inspect."""

    app: ChatApp
    pilot: Pilot[None]
    model: FakeModel

    @property
    def screen(self) -> ChatScreen:
        return next(screen for screen in self.app.screen_stack if isinstance(screen, ChatScreen))

    @property
    def composer(self) -> Composer:
        return self.screen.query_one(Composer)

    @property
    def transcript(self) -> Transcript:
        return self.screen.query_one(Transcript)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.app.controller.conversation.path]

    @property
    def notices(self) -> list[str]:
        return [notice.message for notice in self.app._notifications]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def leave(self, key: str = "ctrl+q") -> None:
        """Press a key that ends the app, and wait for its end.

        `press` would fail now and then: it waits for all widgets and redraws the screen, which end meanwhile.
        """
        await self.app._press_keys([key])
        async with asyncio.timeout(20):
            while self.app.is_running:
                await asyncio.sleep(0.01)

    async def type(self, text: str) -> None:
        """Type a line, and Enter."""
        self.composer.text = text
        self.composer.focus()
        await self.pilot.pause()
        await self.press("enter")

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not true():
                await asyncio.sleep(0.01)
        await self.pilot.pause()

    async def say(self, text: str) -> None:
        """Send a message and wait for the reply."""
        before = len(self.texts)
        await self.type(text)
        await self.until(lambda: len(self.texts) > before and self.app.controller.replies.running is None)

    def shown(self) -> str:
        """The whole screen as text."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in lines)


@asynccontextmanager
async def chatting(
    folder: Path, model: FakeModel | None = None, size: tuple[int, int] = (100, 30), chat: int | None = None
) -> AsyncIterator[Driven]:
    """The app with a store in `folder`, its model open."""
    async with driving(Store(folder / "chats.db"), model or FakeModel(), "fake", chat, size) as driven:
        yield driven


@asynccontextmanager
async def driving(
    store: Store,
    model: FakeModel,
    name: str,
    chat: int | None,
    size: tuple[int, int],
    find: Callable[[], list[str]] = list,
) -> AsyncIterator[Driven]:
    """The app with this store, its model open under this name; `find` looks for the names of all models."""
    backend = FakeBackend(model, find=find)
    app = ChatApp(store, backend, name, chat)
    try:
        async with app.run_test(size=size) as pilot:
            driven = Driven(app, pilot, backend.model)
            await driven.until(lambda: app.controller.model.opened)
            yield driven
    finally:
        app.controller.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test that awaits."""
    asyncio.run(test)
