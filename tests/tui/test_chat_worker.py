"""The worker: the order of jobs, stopping replies, errors that leave the worker running."""

from queue import Queue
from threading import Event as Flag
from types import SimpleNamespace
from typing import Any

import pytest

from edgellm import EdgeLLMError
from edgellm.errors import GuideError
from support.chat_fakes import FakeModel, FakeReply
from support.worker_harness import ASKED, WorkerHarness, harnessed, no_options
from tui.core.activity import Phase
from tui.core.autosave import Autosave
from tui.core.edge_backend import EdgeModel
from tui.core.error_text import error_line
from tui.core.events import ModelFailed, ModelOpened, Notice, ReplyEnded
from tui.core.reply_request import ReplyRequest

harness = pytest.fixture(harnessed)


def test_a_reply_is_what_the_model_writes(harness: WorkerHarness) -> None:
    harness.worker.open("fake", lambda name, path: {"ctx": 512} if name == "fake" else {})
    assert harness.next() == ModelOpened("fake", 4096, True, requested="fake", path="fake")
    assert harness.backend.opened == [("fake", {"ctx": 512})]
    harness.worker.reply(ReplyRequest(7, ASKED, {"temp": 0.0}))
    ended = harness.next()
    assert isinstance(ended, ReplyEnded)
    assert (ended.message, ended.text, ended.finish_reason) == (7, "You said: hello", "eog")
    assert ended.stats and ended.stats["ttft_s"] == 0.21
    assert harness.backend.model.options == [{"temp": 0.0}]
    activity = harness.worker.activity()
    assert (activity.phase, activity.model, activity.blocks, activity.gpu_blocks) == (Phase.READY, "fake", 33, 0)
    assert activity.live and activity.live.gaps_ms


def test_stop_ends_a_reply_and_keeps_what_came(harness: WorkerHarness) -> None:
    model = harness.backend.model = FakeModel(replies=[["one ", "two ", "three"]], hold=2)
    harness.worker.open("fake", no_options)
    harness.next()
    harness.worker.reply(ReplyRequest(1, ASKED))
    assert model.held.wait(20)
    written = harness.worker.written(1)
    assert written
    assert written.text == "one two "
    harness.worker.stop(1)
    ended = harness.next()
    assert isinstance(ended, ReplyEnded)
    assert (ended.text, ended.finish_reason) == ("one two ", "cancelled")


def test_stop_ends_a_reply_whose_prompt_is_still_made(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, cancelled = Flag(), Flag()

    def reply(messages: Any, options: Any, written: str) -> FakeReply:
        begun.set()
        assert cancelled.wait(20)
        raise EdgeLLMError("the chat template was stopped")

    monkeypatch.setattr(harness.backend.model, "reply", reply)
    monkeypatch.setattr(harness.backend.model, "cancel", cancelled.set)
    harness.worker.open("fake", no_options)
    assert isinstance(harness.next(), ModelOpened)
    harness.worker.reply(ReplyRequest(1, ASKED))
    assert begun.wait(20)
    harness.worker.stop(1)
    assert harness.next() == ReplyEnded(1, "", "cancelled")
    assert harness.worker.activity().phase is Phase.READY


def test_a_reply_stopped_before_its_turn_is_never_begun(harness: WorkerHarness) -> None:
    model = harness.backend.model = FakeModel(replies=[["one", "two"]], hold=1)
    harness.worker.open("fake", no_options)
    harness.next()
    harness.worker.reply(ReplyRequest(1, ASKED))
    harness.worker.reply(ReplyRequest(2, ASKED))
    assert model.held.wait(20)
    harness.worker.stop(2)
    model.go.set()
    harness.next()
    assert harness.next() == ReplyEnded(2, "", "cancelled")
    assert len(model.asked) == 1


def test_want_of_memory_is_reported_in_the_words_of_the_commands(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise MemoryError

    monkeypatch.setattr(harness.backend, "open", fail)
    harness.worker.open("fake", no_options)
    failed = harness.next()
    assert isinstance(failed, ModelFailed)
    assert failed.problem.startswith("there is not enough memory: ")


def test_an_error_in_the_middle_keeps_the_text_and_the_model(harness: WorkerHarness) -> None:
    harness.backend.model.replies = [["some ", "BREAK"], ["fine"]]
    harness.worker.open("fake", no_options)
    harness.next()
    harness.worker.reply(ReplyRequest(1, ASKED))
    harness.worker.reply(ReplyRequest(2, ASKED))
    broken, fine = harness.next(), harness.next()
    assert isinstance(broken, ReplyEnded)
    assert isinstance(fine, ReplyEnded)
    assert (broken.text, broken.finish_reason) == ("some ", "error")
    assert broken.problem == "the engine broke; open the model again"
    assert fine.text == "fine"


def test_blocks_on_the_gpu_are_those_of_now(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure in the middle of a reply, the CPU computes the GPU's blocks."""
    on_gpu = [{"name": "CPU", "blocks": 3, "bytes": 30}, {"name": "GPU", "blocks": 30, "bytes": 300}]
    on_cpu = [{"name": "CPU", "blocks": 33, "bytes": 330}]
    engine = SimpleNamespace(threads=2, devices=on_gpu)
    chat = SimpleNamespace(thinking=False, effort=False, calls=False)
    opened: Any = SimpleNamespace(
        ctx=512, engine=engine, chat=lambda template: chat, sampling_defaults={}, close=lambda: None
    )
    opened.drafts_with, opened.weights_in_memory = None, (None, 0)
    monkeypatch.setattr(harness.backend, "open", lambda *_: EdgeModel("real", "/real.gguf", opened, None))
    harness.worker.open("real", no_options)
    assert isinstance(harness.next(), ModelOpened)
    assert (harness.worker.activity().gpu_blocks, harness.worker.activity().blocks) == (30, 33)
    engine.devices = on_cpu
    assert (harness.worker.activity().gpu_blocks, harness.worker.activity().blocks) == (0, 33)


def test_the_part_in_memory_is_that_at_the_end_of_the_last_reply(harness: WorkerHarness) -> None:
    """Also where all of the model was in memory before: other programs may push it out."""
    harness.worker.open("fake", no_options)
    for message, resident in enumerate((3, 8, 2)):
        harness.backend.model.weights_in_memory = resident, 8
        harness.worker.reply(ReplyRequest(message, ASKED))
        assert harness.worker.done().wait(20)
        activity = harness.worker.activity()
        assert (activity.resident, activity.weights) == (resident, 8)
    harness.worker.open("missing", no_options)
    assert harness.worker.done().wait(20)
    assert harness.worker.activity().resident is None


def test_what_has_come_is_saved_also_while_no_further_token_comes(harness: WorkerHarness) -> None:
    saved: Queue[str] = Queue()
    harness.backend.model.replies, harness.backend.model.hold = [["a", "b", "c"]], 2
    harness.worker.open("fake", no_options)
    harness.next()
    harness.worker.reply(ReplyRequest(1, ASKED, save=lambda _, text: saved.put(text)))
    assert harness.backend.model.held.wait(20)
    assert saved.get(timeout=20) == "ab"
    harness.backend.model.go.set()
    assert isinstance(ended := harness.next(), ReplyEnded)
    assert ended.text == "abc"


def test_a_text_is_not_saved_any_more_once_its_end_is() -> None:
    """A late save would replace the complete text and its finish reason."""
    reply = FakeReply(["a"], FakeModel())
    saving, saved, go_on = Flag(), [], Flag()

    def save(text: str) -> None:
        saving.set()
        assert go_on.wait(20)
        saved.append(text)

    with Autosave(reply, save):
        next(iter(reply))
        assert saving.wait(20)
        go_on.set()
    assert saved == ["a"]


def test_a_save_that_fails_does_not_end_the_reply(harness: WorkerHarness) -> None:
    failed = Flag()

    def fail(message: int, text: str) -> None:
        failed.set()
        raise RuntimeError("no room")

    harness.backend.model.replies, harness.backend.model.hold = [["a", "b"]], 1
    harness.worker.open("fake", no_options)
    harness.next()
    harness.worker.reply(ReplyRequest(1, ASKED, save=fail))
    assert failed.wait(20)
    harness.backend.model.go.set()
    assert isinstance(ended := harness.next(), ReplyEnded)
    assert (ended.text, ended.finish_reason) == ("ab", "eog")


def test_whatever_fails_around_a_reply_the_next_one_is_written(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("broken")

    harness.worker.open("fake", no_options)
    harness.next()
    harness.worker.reply(ReplyRequest(1, ASKED, end=fails))
    assert isinstance(notice := harness.next(), Notice)
    assert "not saved" in notice.text
    assert isinstance(ended := harness.next(), ReplyEnded)
    assert ended.message == 1
    with monkeypatch.context() as broken:
        broken.setattr(harness.worker._writer, "_emit", fails)
        harness.worker.reply(ReplyRequest(2, ASKED))
        while harness.worker.running is not None or not harness.worker._jobs.empty():
            pass
    with monkeypatch.context() as broken:
        broken.setattr(harness.backend.model, "close", fails)
        harness.worker.open("other", no_options)
        while not isinstance(opened := harness.next(), ModelOpened):
            pass
    assert opened.name == "other"
    harness.worker.reply(ReplyRequest(3, ASKED))
    assert isinstance(ended := harness.next(), ReplyEnded)
    assert (ended.message, ended.text) == (3, "You said: hello")


@pytest.mark.parametrize(
    ("ctx", "overflow", "mentioned"), [(2059, "stop", True), (2059, "window", False), (2060, "stop", False)]
)
def test_a_reply_that_fills_the_context_says_so(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, ctx: int, overflow: str, mentioned: bool
) -> None:
    """The fake model has 2048 prompt tokens and writes 12, of which the last is never computed with."""
    harness.backend.model.ctx = ctx
    monkeypatch.setattr(FakeReply, "finish_reason", property(lambda _: "length", lambda *_: None), raising=False)
    harness.worker.open("fake", no_options)
    harness.next()
    harness.worker.reply(ReplyRequest(1, ASKED, {"overflow": overflow}))
    assert isinstance(ended := harness.next(), ReplyEnded)
    assert (ended.finish_reason, ended.text) == ("length", "You said: hello")
    assert ("context of 2,059 tokens is full" in (ended.problem or "")) is mentioned


def test_a_schema_that_fails_with_a_reply_is_named_by_its_command() -> None:
    assert error_line(GuideError("option json_schema: #/not is a keyword")) == "/schema: #/not is a keyword"
