"""A model whose closing is interrupted, as by Ctrl-C: the next call ends it, and no thread and no map stays."""

from pathlib import Path
from threading import Thread
from threading import enumerate as running_threads

import pytest

from edgellm import Model, model
from edgellm.builtin import PATH
from edgellm.engine import (
    closing,
    cpu,
    failover,
    feature_encoder,
    head_engine,
    host_kv_pages,
    model_runner,
    native_engine,
    target_reader,
)
from edgellm.generate import draft_loading, session
from edgellm.speculation import head_choice
from support.archs import ArchFixture
from support.certain_heads import write_certain_head
from support.gemma_assistants import TARGETS, write_assistant
from support.interrupted_lines import interrupt_after

_DEVICES = (closing, cpu, feature_encoder, host_kv_pages, target_reader)
_ENGINES = (failover, head_engine, model_runner, native_engine)
_CLOSED = {module.__name__ for module in (*_DEVICES, *_ENGINES, draft_loading, head_choice, session, model)}


@pytest.fixture(params=["eagle3", "assistant"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """Files of a target and of its head: one with an encoder and cells of its own, one that reads the target's."""
    if request.param == "eagle3":
        written = write_certain_head(tmp_path)
        return written.target, written.head
    name, shared = "gemma4_e2b", request.getfixturevalue("shared")
    return ArchFixture.of(shared, name).gguf, write_assistant(tmp_path / "assistant.gguf", TARGETS[name])


def test_a_close_that_was_interrupted_at_any_line_ends_when_it_is_called_again(files: tuple[Path, Path]) -> None:
    target, head = files
    threads, interrupted, lines = set(running_threads()), True, 0
    while interrupted:
        opened = Model.open(target, draft=str(head), ctx=128, threads=2)
        assert opened.drafts_with
        opened.logits([5, 6])
        interrupted = interrupt_after(lines, opened.close, _CLOSED)
        opened.close()
        assert set(running_threads()) <= threads
        assert not any(str(path) in Path("/proc/self/maps").read_text() for path in files)
        lines += 1
    assert lines > 40


def test_a_close_that_was_interrupted_while_the_threads_end_ends_them_when_it_is_called_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, opened = set(running_threads()), Model.open(PATH, ctx=128, threads=3)
    assert set(running_threads()) > threads

    def interrupted(thread: Thread, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Thread, "join", interrupted)
        opened.close()
    opened.close()
    assert set(running_threads()) <= threads
