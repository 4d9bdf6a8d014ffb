"""Screens of the chat with fixed numbers, for the snapshots."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

from textual.widgets import Input, TextArea

from support.chat_app import Driven, driving
from support.chat_fakes import FakeModel, stats
from support.instrument_readings import MEMORY
from support.tui_models_app import settled
from tui.core.store import ChatRow, SavedChat, Store
from tui.core.tree import Message, Tree
from tui.models.row import ModelRow
from tui.models.screen import ModelsScreen
from tui.sidebar import Sidebar
from tui.views.themes import DARK, LIGHT

MODEL = "qwen3-1.7b-q4_k_m"
THEMES = (DARK.name, LIGHT.name)

_THOUGHT = "<think>\nThey ask about speed. A table says it best, and a short function shows the sum.\n</think>\n\n"
_ANSWER = """Each token takes reading **all weights once**. So the memory sets the pace:

| part | bytes per token | share |
|:-----|----------------:|------:|
| weights | 1.08 GB | 94 % |
| KV cache | 67 MB | 6 % |

```python
def fastest(bandwidth: float, weights: float) -> float:
    \"\"\"Tokens per second at most.\"\"\"
    return bandwidth / weights  # 44.6e9 / 1.08e9 = 41.3
```

What helps, in this order:

1. a smaller type, such as `Q4_K_M`
2. a *shorter* context
   - or `q8_0` keys and values
3. faster memory

> More cores do not: two of them wait for the same memory.
"""
_WRITING = """Because nothing is computed twice. A token's keys and values depend on what stands **before** it \
alone, so after an edit only the tokens after it are read anew:

```python
shared = common_prefix(cache, prompt)
"""
_WHEN = datetime(2026, 3, 14, 12).timestamp()

ROWS = (
    ModelRow(MODEL, "edgellm", 1_720_000_000, "Q4_K_M", 1_110_000_000, 40_960, "fits"),
    ModelRow("builtin", "edgellm", 13_000_000, "Q4_K_M", 8_470_000, 1024, "fits"),
    ModelRow("Qwen3-8B-Q4_K_M", "LM Studio", 8_190_000_000, "Q4_K_M", 5_030_000_000, 40_960, "tight"),
    ModelRow("llama-3.3-70b", "ollama", 70_600_000_000, "Q4_K_M", 42_500_000_000, 131_072, "too large"),
    ModelRow("half", "./models", bytes=4711, problem="ends in the middle of tensor blk.0; download it again"),
)
OFFERED = (
    ModelRow("Qwen/Qwen3-4B-GGUF", "", bytes=2_500_000_000, fit="fits", note="reasoning and mathematics", offered=True),
    ModelRow("org/SmolLM2-360M", "", bytes=270_000_000, fit="fits", note="little memory", offered=True),
)
CHATS = (
    ChatRow(1, "Why is decode memory-bound?", MODEL, _WHEN, 6),
    ChatRow(7, "A name for a small boat", "builtin", _WHEN - 86_400 * 9, 12),
    ChatRow(8, "Übersetzung: 東京の天気 🌦", MODEL, _WHEN - 86_400 * 40, 2),
    ChatRow(9, "", None, _WHEN - 86_400 * 80, 1),
)


async def _empty(chat: Driven) -> None:
    pass


async def _talk(chat: Driven) -> None:
    chat.transcript.action_scroll_home()


async def _writing(chat: Driven) -> None:
    await chat.press("ctrl+t")
    await chat.type("And why is going back to an edited message free?")
    await chat.until(chat.model.held.is_set)
    await chat.until(lambda: "▼ writing" in chat.shown())
    chat.composer.text = "typed while it writes"


async def _chats(chat: Driven) -> None:
    await chat.press("ctrl+b")
    chat.screen.query_one(Sidebar).show(CHATS, 1)


async def _models(chat: Driven) -> None:
    await chat.press("f3")
    assert isinstance(chat.app.screen, ModelsScreen)
    await settled(chat.app.screen, chat.pilot)


async def _settings(chat: Driven) -> None:
    chat.app.controller.model.set("top_k", "30")
    await chat.press("f4", "down")


Scene = Callable[[Driven], Awaitable[None]]
SCENES: Mapping[str, Scene] = {
    "empty": _empty,
    "conversation": _talk,
    "writing": _writing,
    "chats": _chats,
    "models": _models,
    "settings": _settings,
}


@asynccontextmanager
async def on_stage(name: str, folder: Path, size: tuple[int, int], theme: str) -> AsyncIterator[Driven]:
    """The app as the scene leaves it; nothing on the screen depends on the time or the machine."""
    store = Store(folder / "chats.db")
    store.preferences.set("theme", theme)
    place = None if name == "empty" else store.put(conversation())
    model = FakeModel(MODEL, 40_960, replies=[[*_WRITING, "more"]], hold=len(_WRITING), defaults={"temp": 0.6})
    with ExitStack() as frozen:
        frozen.enter_context(patch("tui.chat.conversation_view.memory", lambda: MEMORY))
        frozen.enter_context(patch("tui.models.catalog.local_rows", lambda: iter(ROWS)))
        frozen.enter_context(patch("tui.models.catalog.offered_rows", lambda: iter(OFFERED)))
        for blinking in (Input, TextArea):
            frozen.enter_context(patch.object(blinking.cursor_blink, "_default", False))
        async with driving(store, model, MODEL, place, size) as chat:
            chat.screen.parts.view.refresh_memory()
            await SCENES[name](chat)
            await at_rest(chat)
            yield chat
            model.go.set()


async def at_rest(chat: Driven) -> None:
    """Wait until the screen has looked the same for some time."""
    seen, same = "", 0
    while same < 4:
        await chat.pilot.pause(0.03)
        seen, same = (shown, 0) if (shown := chat.shown()) != seen else (seen, same + 1)


def conversation() -> SavedChat:
    """Two turns; the first reply has another version, and the last one was stopped."""
    told = replace(stats(212), cached_tokens=0, prompt_tokens=24)
    turns = [
        Message(1, None, "user", "Why is decode memory-bound?", _WHEN),
        Message(2, 1, "assistant", "Because.", _WHEN, MODEL, "eog", asdict(stats(2))),
        Message(3, 1, "assistant", _THOUGHT + _ANSWER, _WHEN, MODEL, "eog", asdict(told)),
        Message(4, 3, "user", "And with eight people at once?\nIs it then eight times slower?", _WHEN),
        Message(5, 4, "assistant", "No: the weights are read once for", _WHEN, MODEL, "cancelled", asdict(stats(8))),
    ]
    return SavedChat(0, turns[0].text, "Be brief, and give numbers.", MODEL, Tree(turns, 5))
