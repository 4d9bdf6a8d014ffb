"""Models that the worker of the chat opens, one in place of another."""

from pathlib import Path
from threading import Event as Flag
from threading import Thread, active_count
from time import sleep
from typing import Any

import pytest

from edgellm import EdgeLLMError
from support.chat_fakes import FakeBackend, FakeModel
from support.model_file import ModelFile
from support.worker_harness import ASKED, WorkerHarness, harnessed, no_options
from tui.core.activity import Phase
from tui.core.backend import NoTemplateError
from tui.core.edge_backend import EdgeBackend
from tui.core.events import Event, ModelFailed, ModelOpened, ReplyEnded
from tui.core.reply_request import ReplyRequest
from tui.core.worker import Worker

harness = pytest.fixture(harnessed)


def test_a_message_sent_while_the_model_loads_goes_off_when_it_is_there(harness: WorkerHarness) -> None:
    harness.backend.wait = Flag()
    harness.worker.open("slow", no_options)
    harness.worker.reply(ReplyRequest(1, ASKED))
    while harness.worker.activity().progress != "opening slow":
        pass
    assert harness.worker.activity().phase is Phase.LOADING
    harness.backend.wait.set()
    assert isinstance(harness.next(), ModelOpened)
    assert isinstance(ended := harness.next(), ReplyEnded)
    assert ended.text == "You said: hello"


def test_a_model_that_was_asked_for_is_loading_before_the_worker_gets_to_it() -> None:
    emitted: list[tuple[type[Event], Phase]] = []
    begun, asked = Flag(), Flag()

    def fails(name: str, path: str) -> dict[str, object]:
        begun.set()
        assert asked.wait(20)
        raise EdgeLLMError("no such option")

    worker = Worker(FakeBackend(), lambda event: emitted.append((type(event), worker.activity().phase)))
    worker.open("first", fails)
    assert begun.wait(20)
    worker.open("second", no_options)
    asked.set()
    assert worker.done().wait(20)
    worker.close()
    assert emitted == [(ModelFailed, Phase.LOADING), (ModelOpened, Phase.READY)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"types": "Q8_0"}, "has no chat template"),
        ({"types": "Q8_0", "chat_template": "{% for"}, "chat template is not valid"),
        ({"types": "Q8_0", "arch": "bert"}, "architecture bert is not supported"),
    ],
)
def test_a_file_that_cannot_chat_is_refused_before_the_open_model_goes(
    model_file: ModelFile, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(EdgeLLMError, match=problem):
        EdgeBackend().check(str(model_file(**options)), no_options)


def test_a_file_that_cannot_chat_is_closed_again(model_file: ModelFile) -> None:
    before = active_count()
    with pytest.raises(NoTemplateError, match="has no chat template"):
        EdgeBackend().open(str(model_file(types="Q8_0")), lambda name, path: {"threads": 3}, lambda progress: None)
    assert active_count() == before


def test_without_a_model_a_reply_says_so(harness: WorkerHarness) -> None:
    harness.worker.open("missing", no_options)
    failed = harness.next()
    assert isinstance(failed, ModelFailed)
    assert "edgellm list" in failed.problem
    harness.worker.reply(ReplyRequest(1, ASKED))
    ended = harness.next()
    assert isinstance(ended, ReplyEnded)
    assert ended.finish_reason == "error"
    assert "no model is open" in (ended.problem or "")
    assert harness.worker.activity().phase is Phase.CLOSED


def test_a_template_that_is_set_lets_any_model_talk(model_file: ModelFile, tmp_path: Path) -> None:
    path = model_file(types="Q8_0")
    with pytest.raises(EdgeLLMError, match="/set template chatml"):
        EdgeBackend().check(str(path), no_options)
    with pytest.raises(EdgeLLMError, match=r"^/set template: nope is no built-in template"):
        EdgeBackend().check(str(path), lambda name, path: {"template": "nope"})
    (tmp_path / "own.jinja").write_text("{% for m in messages %}<{{ m.content }}>{% endfor %}")
    options = {"threads": 1, "template": str(tmp_path / "own.jinja")}
    model = EdgeBackend().open(str(path), lambda name, path: options, lambda progress: None)
    try:
        assert model.inspect([{"role": "user", "content": "hi"}], {}).text == "<hi>"
        assert (model.name, model.path) == (str(path), str(path))
    finally:
        model.close()


def test_another_model_takes_the_place_of_the_first(harness: WorkerHarness) -> None:
    first = harness.backend.model
    harness.worker.open("first", no_options)
    harness.next()
    harness.backend.model = FakeModel()
    harness.worker.open("second", no_options)
    assert harness.next() == ModelOpened("second", 4096, True, requested="second", path="second")
    assert first.closed


def test_of_models_asked_for_while_one_loads_only_the_last_is_opened(harness: WorkerHarness) -> None:
    harness.backend.wait = Flag()
    harness.worker.open("first", no_options)
    while harness.worker.activity().progress != "opening first":
        pass
    harness.worker.open("second", no_options)
    harness.worker.open("third", no_options)
    harness.worker.reply(ReplyRequest(1, ASKED))
    harness.backend.wait.set()
    while not isinstance(ended := harness.next(), ReplyEnded):
        pass
    assert (ended.text, ended.finish_reason) == ("You said: hello", "eog")
    assert [name for name, _ in harness.backend.opened] == ["first", "third"]


def test_a_reply_that_waits_is_for_the_model_that_is_opened_then(harness: WorkerHarness) -> None:
    harness.backend.wait = Flag()
    harness.worker.open("first", no_options)
    harness.worker.reply(ReplyRequest(1, ASKED))
    while harness.worker.activity().progress != "opening first":
        pass
    harness.worker.open("second", no_options)
    harness.backend.wait.set()
    events = [harness.next() for _ in range(3)]
    assert [type(event) for event in events] == [ModelOpened, ModelOpened, ReplyEnded]
    assert isinstance(ended := events[-1], ReplyEnded)
    assert (ended.text, ended.finish_reason) == ("You said: hello", "eog")


def test_closing_opens_nothing_more() -> None:
    backend = FakeBackend(wait=Flag())
    worker = Worker(backend, lambda event: None)
    worker.open("first", no_options)
    while worker.activity().progress != "opening first":
        pass
    worker.open("second", no_options)
    Thread(target=lambda: (sleep(0.05), backend.wait and backend.wait.set())).start()
    worker.close()
    assert [name for name, _ in backend.opened] == ["first"]
    assert backend.model.closed
