"""A fake model for tests of the chat, with prepared replies and figures."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.generate.stats import Live, Stats
from edgellm.tools.calls import BrokenCall, ToolCall
from tui.core.backend import Messages, NoTemplateError, Options, Report
from tui.core.model_references import absolute_model_path, is_of_server


def stats(generated: int = 12) -> Stats:
    """Fixed figures."""
    return Stats(
        prompt_tokens=2048,
        cached_tokens=1912,
        generated_tokens=generated,
        ttft_s=0.21,
        prefill_tps=650.0,
        decode_tps=45.3,
        itl_ms={"p50": 21.0, "p95": 24.0},
        mbu=0.84,
        devices=[{"name": "CPU", "blocks": 33, "bytes": 760_000_000}],
    )


def live(generated: int = 12) -> Live:
    """Fixed figures of one moment."""
    return Live(
        elapsed_s=0.5,
        prefill_done=136,
        prefill_total=136,
        prefill_eta_s=0.0,
        recent_tps=46.1,
        gaps_ms=tuple(20.0 + i % 5 for i in range(generated)),
        context_used=2048 + generated,
        stats=stats(generated),
        diverged_at=1912,
        diverged_text="Today Date: 21 Nov",
    )


Piece = str | ToolCall | BrokenCall


class FakeReply:
    """Writes `pieces`, which are text and calls of tools; after `hold` pieces it waits for `go` or `cancel`."""

    def __init__(self, pieces: list[Piece], model: "FakeModel", begun: str = "") -> None:
        self.text, self.finish_reason = begun, None
        self.dropped_tokens, self.dropped_messages = model.dropped
        self.tool_calls: list[ToolCall] = []
        self.broken_calls: list[BrokenCall] = []
        self._pieces, self._model = pieces, model
        self._cancelled = False

    @property
    def stats(self) -> Stats:
        return stats()

    def live(self) -> Live:
        return live()

    def cancel(self) -> None:
        self._cancelled = True
        self._model.go.set()

    def __iter__(self) -> Iterator[Piece]:
        for i, piece in enumerate(self._pieces):
            if i == self._model.hold:
                self._model.held.set()
                assert self._model.go.wait(20)
            if self._cancelled:
                self.finish_reason = "cancelled"
                return
            if piece == "BREAK":
                raise EdgeLLMError("the engine broke; open the model again")
            if isinstance(piece, ToolCall):
                self.tool_calls.append(piece)
            elif isinstance(piece, BrokenCall):
                self.broken_calls.append(piece)
            else:
                self.text += piece
            yield piece
        self.finish_reason = "tool_calls" if self.tool_calls else "eog"


@dataclass
class FakeModel:
    """Replies to each message with the next of `replies`, or by repeating it."""

    name: str = "fake"
    ctx: int = 4096
    threads: int = 2
    thinking: bool = True
    effort: bool = False
    calls: bool = True
    counts: bool = True
    continues: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict)
    replies: list[list[Piece]] = field(default_factory=list)
    hold: int | None = None
    dropped: tuple[int, int] = (0, 0)
    held: Event = field(default_factory=Event)
    go: Event = field(default_factory=Event)
    asked: list[list[Mapping[str, Any]]] = field(default_factory=list)
    options: list[Mapping[str, Any]] = field(default_factory=list)
    closed: bool = False
    inspection: Any = None
    path: str = "fake"
    weights_in_memory: tuple[int | None, int] = (600_000_000, 800_000_000)
    drafter: str = ""

    @property
    def devices(self) -> list[dict[str, Any]]:
        return [{"name": "CPU", "blocks": 33, "bytes": 760_000_000}]

    def reply(self, messages: Messages, options: Mapping[str, Any], begun: str) -> FakeReply:
        self.asked.append(list(messages))
        self.options.append(options)
        pieces = self.replies.pop(0) if self.replies else ["You said: ", messages[-1]["content"]]
        return FakeReply(pieces, self, begun)

    def cancel(self) -> None:
        pass

    def inspect(self, messages: Messages, options: Mapping[str, Any]) -> Any:
        if self.inspection is None:
            raise EdgeLLMError("the fake model has nothing to inspect")
        return self.inspection

    def count(self, messages: Messages, options: Mapping[str, Any]) -> int:
        return sum(len((message["content"] or "").split()) for message in messages)

    def count_text(self, text: str) -> int:
        return len(text.split())

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeBackend:
    """Opens `model` under any name but `missing`, and `base` with a template; with `wait` it loads until that is set.

    `named` are the names that paths have in lists, `paths` where names lead; `find` looks for all names.
    """

    model: FakeModel = field(default_factory=FakeModel)
    wait: Event | None = None
    opened: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    find: Callable[[], list[str]] = list
    server: str = ""

    def reference(self, model: str) -> str:
        return absolute_model_path(model)

    def title(self, reference: str) -> str:
        return reference

    def owns(self, model: str) -> bool:
        return not is_of_server(model)

    def open(self, model: str, options: Options, report: Report) -> FakeModel:
        report(f"opening {model}")
        if self.wait:
            assert self.wait.wait(20)
        if model == "missing":
            raise EdgeLLMError("missing: there is no such model; `edgellm list` shows all")
        if model == "base":
            self.check(model, options)
        name = self.named.get(model, model)
        path = self.paths.get(model, model)
        self.opened.append((name, options(name, path)))
        self.model.name, self.model.path, self.model.closed = name, path, False
        return self.model

    def check(self, model: str, options: Options) -> None:
        if model == "no-such":
            raise EdgeLLMError("no-such: there is no such model; `edgellm list` shows all")
        if model == "base" and not options(model, model).get("template"):
            raise NoTemplateError("base has no chat template: /set template chatml lets it talk all the same")
        if options(model, model).get("ctx", 0) > 8192:
            raise EdgeLLMError("option ctx cannot be so large")

    def names(self) -> list[str]:
        return self.find()
