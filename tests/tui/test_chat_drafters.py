"""The chat says which model or head drafts, and once why none does."""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Queue
from threading import Thread
from time import monotonic, sleep
from typing import Any, Literal

import pytest

from edgellm.errors import EdgeLLMWarning, NoMemoryError
from edgellm.speculation import draft_model
from support.chat_model import write_chat_model
from support.instrument_readings import DONE
from support.local_models import Machine, machine
from support.model_file import FamilyFile
from support.terminal import chat_in_terminal
from tui.core.edge_backend import EdgeBackend
from tui.core.events import Event, ModelOpened, Notice
from tui.core.warning_notices import WarningNotices
from tui.core.worker import Worker
from tui.instruments.metric_row import TextValue
from tui.instruments.metric_values import metric_values

__all__ = ["machine"]

NONE_FITS = "no model on this machine can draft for it"


class Chat:
    """A worker with models of this machine, and its events."""

    def __init__(self) -> None:
        self.events: Queue[Event] = Queue()
        self.worker = Worker(EdgeBackend(), self.events.put)

    def open(self, path: Path, **options: Any) -> list[str]:
        """Open a model; returns the notices until it is open."""
        self.worker.open(str(path), lambda name, path: options)
        told = list[str]()
        while not isinstance(event := self.events.get(timeout=60), ModelOpened):
            assert isinstance(event, Notice) and event.severity == "warning", event
            told.append(event.text)
        return told

    def wait_for_drafter(self, name: str) -> None:
        end = monotonic() + 60
        while self.worker.activity().drafter != name:
            assert monotonic() < end
            sleep(0.01)


@contextmanager
def chatting() -> Iterator[Chat]:
    chat = Chat()
    try:
        with chat.worker.warnings.emitted():
            yield chat
    finally:
        chat.worker.close()


@pytest.fixture
def files(machine: Machine) -> tuple[Path, Path]:
    """A model, and another one with the same tokens, where `auto` does not look."""
    return write_chat_model(machine.home / "large.gguf"), write_chat_model(machine.home / "small.gguf", seed=1)


def test_without_a_model_that_fits_each_opening_says_so_once(files: tuple[Path, Path]) -> None:
    with chatting() as chat:
        for _ in range(2):  # the second one is checked first, which warns of the same
            (told,) = chat.open(files[0], draft="auto")
            assert NONE_FITS in told
        assert not chat.open(files[0])
        assert not chat.worker.activity().drafter


def test_what_drafts_is_a_row_of_the_panel_until_it_fails(files: tuple[Path, Path]) -> None:
    with chatting() as chat:
        assert not chat.open(files[0], draft=str(files[1]))
        chat.wait_for_drafter(str(files[1]))
        assert metric_values(chat.worker.activity(), None)["drafter"] == TextValue("small.gguf")
        source = chat.worker._loader.model._model.drafts().source  # type: ignore[union-attr]
        assert source
        for _ in range(2):
            source.fail(NoMemoryError("it has no memory"))
        assert chat.events.get(timeout=20) == Notice(
            f"{files[1]}: it has no memory; replies go on without its drafts", "warning"
        )
        assert chat.events.empty()
        assert metric_values(chat.worker.activity(), None)["drafter"] == TextValue("–")


def test_a_draft_model_that_does_not_load_is_a_notice(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*file: Any, **options: Any) -> None:
        raise NoMemoryError("no memory for this")

    monkeypatch.setattr(draft_model, "NativeEngine", fail)
    with chatting() as chat:
        told = chat.open(files[0], draft=str(files[1]))
        if not told:  # it is loaded beside the model
            event = chat.events.get(timeout=20)
            assert isinstance(event, Notice)
            told = [event.text]
        assert told == [
            f"the draft model {files[1]} cannot be used: no memory for this; replies go on without its drafts"
        ]


def test_a_layer_of_the_model_is_named_by_what_it_is(family_file: FamilyFile) -> None:
    with chatting() as chat:
        assert not chat.open(family_file("qwen3_5"), draft="auto", template="chatml")
        assert chat.worker.activity().drafter == "multi-token prediction"
    rows = metric_values(replace(DONE, drafter="multi-token prediction"), None)
    assert rows["drafter"] == TextValue("multi-token prediction"), "in full"


@pytest.mark.parametrize("action", ["always", "ignore", "error"])
def test_only_warnings_of_edgellm_are_told_and_all_are_shown_as_before(
    action: Literal["always", "ignore", "error"],
) -> None:
    """Those of edgellm whatever the filters say."""
    told, shown = list[Event](), list[str]()
    notices = WarningNotices(told.append)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter(action, EdgeLLMWarning)
        before = warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
        with notices.emitted():
            for _ in range(2):
                warnings.warn("ours", EdgeLLMWarning, stacklevel=1)
                warnings.warn("another's", UserWarning, stacklevel=1)
            beside = Thread(target=lambda: warnings.warn("beside", EdgeLLMWarning, stacklevel=1))
            beside.start()
            beside.join()
            notices.begin()
            warnings.warn("ours", EdgeLLMWarning, stacklevel=1)
            warnings.warn("of a file \x1b[2J", EdgeLLMWarning, stacklevel=1)
        assert warnings.showwarning is before
    assert told == [Notice(text, "warning") for text in ("ours", "beside", "ours", r"of a file \x1b[2J")]
    assert shown == ["ours", "another's", "ours", "another's", "beside", "ours", "of a file \x1b[2J"]


def test_lines_tell_it_on_stderr_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgellm", "chat", "builtin", "--plain", "--draft", "auto"],
        env={**os.environ, "EDGELLM_HOME": str(tmp_path), "HOME": str(tmp_path)},
        input="/stats\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count(NONE_FITS) == 1
    assert NONE_FITS in (tmp_path / "chat.log").read_text()


def test_the_screen_tells_it_over_the_conversation(tmp_path: Path) -> None:
    with chat_in_terminal("builtin", "--draft", "auto", home=tmp_path, HOME=str(tmp_path)) as chat:
        chat.until(lambda: NONE_FITS in " ".join(word for word in chat.text.split() if word != "▌"))
        chat.press("ctrl+q")
        assert chat.wait() == 0
