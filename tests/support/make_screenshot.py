"""Write the README's picture of the chat: `python -m support.make_screenshot [FILE.svg]` (tui/screenshot.svg).

A fixed conversation with frozen numbers: the same program makes the same file.
"""

import asyncio
import os
import re
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from textual.widgets import TextArea

from edgellm.generate.stats import Live, Stats
from support import ROOT
from support.chat_app import driving
from support.chat_fakes import FakeModel, FakeReply, stats
from support.chat_scenes import at_rest
from support.instrument_readings import MEMORY
from tui.core.store import Store
from tui.views.themes import DARK

TARGET = ROOT / "tui" / "screenshot.svg"
SIZE = (112, 32)
MODEL = "Qwen3-1.7B-Q4_K_M"

_ASKED = "Why is writing a reply bound by memory, and not by arithmetic?"
_THOUGHT = """<think>
They may know what a matrix product is. Compare the bytes with the operations, then show the sum as code.
</think>

"""
_REPLY = """For **each token** the model reads all of its weights once, and uses each of them for one multiplication:

| per token | this model | this machine | takes |
|:----------|-----------:|-------------:|------:|
| read      |    1.08 GB |     45 GB/s  | 24 ms |
| multiply  |     1.7 G  |    900 G/s   |  2 ms |

So a smaller file is a faster model, and more cores change little:

```python
def fastest(bandwidth: float, weights: float) -> float:
    \"\"\"Tokens per second, at most.\"\"\"
    return bandwidth / weights  # 45e9 / 1.08e9 = 41.7
```

Reading a **prompt** is the other way round: the weights are read once for all of its"""
_GAPS = (28.2, 28.4, 28.3, 31.0, 28.5, 28.2, 28.4, 28.3, 35.7, 28.6, 28.4, 28.3, 28.2, 28.5, 28.4, 28.9, 28.3, 28.4)
_STATS = replace(
    stats(171),
    prompt_tokens=412,
    cached_tokens=376,
    ttft_s=0.11,
    prefill_tps=331.0,
    decode_tps=35.1,
    itl_ms={"p50": 28.4, "p95": 31.0},
    mbu=0.84,
)


class _Reply(FakeReply):
    @property
    def stats(self) -> Stats:
        return _STATS

    def live(self) -> Live:
        return Live(5.1, 36, 36, 0.0, 35.3, _GAPS * 3, 583, _STATS, 376, "…Why is writing")


class _Model(FakeModel):
    def reply(self, messages: Any, options: Any, begun: str) -> FakeReply:
        return _Reply([*_THOUGHT, *_REPLY, " tokens"], self)


async def screenshot(folder: Path) -> str:
    """The SVG."""
    store = Store(folder / "chats.db")
    store.preferences.set("theme", DARK.name)
    model = _Model(MODEL, 8192, hold=len(_THOUGHT + _REPLY))
    with ExitStack() as frozen:
        frozen.enter_context(patch("tui.chat.conversation_view.memory", lambda: MEMORY))
        frozen.enter_context(patch.object(TextArea.cursor_blink, "_default", False))
        async with driving(store, model, MODEL, None, SIZE) as chat:
            chat.screen.parts.view.refresh_memory()
            await chat.press("ctrl+t")
            await chat.type(_ASKED)
            await chat.until(chat.model.held.is_set)
            await at_rest(chat)
            svg = chat.app.export_screenshot(title="edgellm chat")
            model.go.set()
    return re.sub(r"terminal-\d+", "edgellm", svg)  # a number of Textual's that is another each time


def main(target: Path) -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EDGELLM_HOME"] = folder
        target.write_text(asyncio.run(screenshot(Path(folder))), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
