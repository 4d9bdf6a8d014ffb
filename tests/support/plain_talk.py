"""Runs of `edgellm chat --plain` in this process, with a fake model."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.chat_fakes import FakeBackend, FakeModel
from tui.core.store import Store
from tui.plain.chat import PlainChat


@dataclass
class Said:
    """The output of a run, and its exit code."""

    code: int
    out: str
    err: str


Talk = Callable[..., Said]


def talk_in_lines(folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Talk:
    """`talk(text or bytes on stdin, ...)`: a run with a fake model, and one store for all runs."""

    def run(typed: str | bytes, model: FakeModel | None = None, name: str = "fake", chat: int | None = None) -> Said:
        data = typed.encode() if isinstance(typed, str) else typed
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        code = 0
        try:
            PlainChat(Store(folder / "chats.db"), FakeBackend(model or FakeModel())).run(name, chat)
        except SystemExit as stop:
            code = int(str(stop.code))
        return Said(code, *capsys.readouterr())

    return run
