"""The app of soak_chat.py: `soak_app.py FOLDER TURNS RATE`. It talks to itself, and writes FOLDER/report at the end."""

import asyncio
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic, process_time, sleep, thread_time
from typing import Any

import psutil

from edgellm.generate.stats import GAPS, Live
from support.chat_fakes import FakeBackend, FakeModel, FakeReply, live
from tui.app import ChatApp
from tui.composer.terminal import use_terminal_input
from tui.core.store import Store

_PARAGRAPH = (
    "A token's **keys and values** depend on what stands before it alone, so after an edit only the `tokens` after it "
    "are read anew.\n\n- first, the weights\n- then the cache\n\n"
    "```python\nfor token in reply:\n    print(token)\n```\n\n"
)
_TOKENS = [_PARAGRAPH[i : i + 4] for i in range(0, len(_PARAGRAPH), 4)]
_SHORT, _LONG = 40, 800


class PacedReply(FakeReply):
    """Writes `tokens` pieces at `rate` a second, and counts the CPU time of doing so."""

    def __init__(self, tokens: int, model: "PacedModel") -> None:
        super().__init__([], model)
        self.count, self._tokens, self._paced = 0, tokens, model

    def live(self) -> Live:
        return live(min(self.count, GAPS))

    def __iter__(self) -> Iterator[str]:
        begun, spent = monotonic(), thread_time()
        while self.count < self._tokens and not self._cancelled:
            self.count += 1
            sleep(max(0.0, begun + self.count / self._paced.rate - monotonic()))
            piece = _TOKENS[self.count % len(_TOKENS)]
            self.text += piece
            yield piece
        self.finish_reason = "cancelled" if self._cancelled else "eog"
        self._paced.written += self.count
        self._paced.spent_s += thread_time() - spent


class PacedModel(FakeModel):
    """Every tenth reply is long."""

    rate, written, spent_s, asked_for = 200.0, 0, 0.0, 0

    def reply(self, messages: Any, options: Mapping[str, Any], begun: str) -> PacedReply:
        self.asked_for += 1
        return PacedReply(_LONG if self.asked_for % 10 == 0 else _SHORT, self)


class SoakApp(ChatApp):
    """Says something as soon as a reply has ended."""

    def __init__(self, folder: Path, turns: int, rate: float) -> None:
        self.model = PacedModel()
        self.model.rate = rate
        super().__init__(Store(folder / "chats.db"), FakeBackend(self.model), "fake")
        self.folder, self.turns, self.turn = folder, turns, 0
        self.memory: list[tuple[int, float]] = []
        self.pause_s = 0.0
        self.set_off: tuple[float, float] | None = None

    def on_ready(self) -> None:
        self.set_interval(0.05, self._go_on)
        self.run_worker(self._feel())

    async def _feel(self) -> None:
        """How late is a call that wants to be made each 5 ms?"""
        while True:
            before = monotonic()
            await asyncio.sleep(0.005)
            if self.set_off:
                self.pause_s = max(self.pause_s, monotonic() - before - 0.005)

    def _go_on(self) -> None:
        if not self.controller.model.opened or self.controller.replies.running is not None:
            return
        self.set_off = self.set_off or (monotonic(), process_time())
        if self.turn % max(1, self.turns // 10) == 0:
            self.memory.append((self.turn, psutil.Process().memory_info().rss / 1e6))
        if self.turn == self.turns:
            self._report()
            self.exit()
            return
        self.turn += 1
        self.controller.sender.send(f"message {self.turn}")

    def _report(self) -> None:
        assert self.set_off
        wall, cpu = monotonic() - self.set_off[0], process_time() - self.set_off[1]
        own = cpu - self.model.spent_s
        lines = [
            f"{self.turns} turns, {self.model.written:,} tokens in {wall:.1f} s",
            f"app {own:.2f} s of CPU, {own / wall:.1%} of a core (the fake model {self.model.spent_s:.2f} s)",
            f"worst pause {self.pause_s * 1e3:.0f} ms",
            "memory " + ", ".join(f"{turn}: {mb:.1f} MB" for turn, mb in self.memory),
        ]
        (self.folder / "unfinished").write_text("\n".join(lines))
        (self.folder / "unfinished").rename(self.folder / "report")


if __name__ == "__main__":
    use_terminal_input()
    SoakApp(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])).run()
