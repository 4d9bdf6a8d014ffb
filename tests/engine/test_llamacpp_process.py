"""The process of the second engine: what it begins with, and that its end, whatever the reason, is one error."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from edgellm import EdgeLLMError, Model, ModelFileError, UnsupportedModelError
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile
from edgellm.llamacpp.engine import LlamaCppEngine
from support.model_file import ModelFile

pytestmark = pytest.mark.skipif(find_spec("llama_cpp") is None, reason="needs llama-cpp-python, the engine itself")

PROMPT = "Once upon a time"


Started = Callable[[], list[psutil.Process]]


def workers(parent: int | None = None) -> list[psutil.Process]:
    """The processes that hold llama.cpp."""
    children = psutil.Process(parent).children(recursive=True)
    return [child for child in children if "edgellm.llamacpp.worker" in child.cmdline()]


@pytest.fixture
def started() -> Started:
    """The workers of this process that were started since the test began, and are still there."""
    before = workers()
    return lambda: [worker for worker in workers() if worker not in before]


def eventually(true: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


@pytest.fixture(scope="module")
def path(model_file: ModelFile) -> Path:
    return model_file(types="F32")


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_the_end_of_the_process_is_one_line(
    path: Path, number: signal.Signals, started: Started, capfd: pytest.CaptureFixture[str]
) -> None:
    with Model.open(path, engine="llama.cpp", threads=2) as model:
        generation = model.stream(PROMPT, temp=0)
        next(generation)
        (worker,) = started()
        worker.send_signal(number)
        for _ in range(2):
            with pytest.raises(EdgeLLMError) as caught:
                list(model.stream(PROMPT) if generation.finish_reason else generation)
            message = str(caught.value)
            assert number.name in message
            assert str(path) in message
            assert "--engine" in message
            assert "\n" not in message
    assert not psutil.pid_exists(worker.pid)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_what_does_not_stop_is_killed(path: Path, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.llamacpp.process.LlamaCppProcess.stop_timeout_s", 0.3)
    with Model.open(path, engine="llama.cpp", threads=2) as model:
        generation = model.stream(PROMPT, temp=0)
        next(generation)
        (worker,) = started()
        worker.suspend()
        canceller = threading.Timer(1, generation.cancel)
        canceller.start()
        with pytest.raises(EdgeLLMError, match="did not stop"):
            next(generation)
        canceller.join()
    assert not psutil.pid_exists(worker.pid)


def test_a_file_that_llama_cpp_refuses(
    model_file: ModelFile, started: Started, capfd: pytest.CaptureFixture[str]
) -> None:
    path = model_file(arch="nonesuch", types="F32")
    with pytest.raises(UnsupportedModelError, match="unknown model architecture: 'nonesuch'") as caught:
        Model.open(path, engine="llama.cpp")
    assert "\n" not in str(caught.value)
    assert started() == []
    assert capfd.readouterr() == ("", "")


def test_a_damaged_file_never_reaches_llama_cpp(path: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(ModelFileError, match="cut off"):
        Model.open(cut, engine="llama.cpp")


def test_without_the_package(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.llamacpp.engine.find_spec", lambda name: None)
    with pytest.raises(EdgeLLMError, match="-m pip install 'llama-cpp-python>="):
        Model.open(path, engine="llama.cpp")


def test_a_package_that_cannot_be_imported(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llama_cpp.py").write_text("raise OSError('libllama.so:\\n no such file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EdgeLLMError, match=r"libllama\.so: no such file"):
        Model.open(path, engine="llama.cpp")


def test_the_current_folder_is_not_imported_from(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llama_cpp.py").write_text("raise OSError('this is not the package')")
    monkeypatch.chdir(tmp_path)
    with Model.open(path, engine="llama.cpp", threads=1) as model:
        assert model.logits([1, 3, 4]).shape == (3, 320)


def test_nothing_is_left_behind(path: Path, started: Started) -> None:
    def open_and_close() -> None:
        with Model.open(path, engine="llama.cpp", threads=1, ctx=32) as model:
            model.generate(PROMPT, max_tokens=1)

    open_and_close()
    this = psutil.Process()
    files, threads = this.num_fds(), threading.active_count()
    for _ in range(5):
        open_and_close()
    assert (this.num_fds(), threading.active_count(), started()) == (files, threads, [])


def test_a_model_that_is_forgotten_ends_too(path: Path, started: Started) -> None:
    model = Model.open(path, engine="llama.cpp", threads=1, ctx=32)
    (worker,) = started()
    del model
    assert eventually(lambda: not worker.is_running())


COMMAND = [sys.executable, "-m", "edgellm", "generate", "--engine", "llama.cpp", "--temp", "0", "-p", PROMPT]


def test_command_line_shows_nothing_of_llama_cpp(path: Path) -> None:
    done = subprocess.run([*COMMAND, str(path), "-n", "9", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with Model.open(path, engine="llama.cpp", threads=2) as model:
        assert json.loads(done.stdout)["tokens"] == model.generate(PROMPT, temp=0, max_tokens=9).tokens
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def endless(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that writes for long, after its first token; it and its process group end with the test."""
    command = [*COMMAND, str(path), "--jsonl", "--logit-bias", "2=-inf"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout
    assert process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_the_process_dies_with_its_parent(endless: subprocess.Popen[str]) -> None:
    (worker,) = workers(endless.pid)
    endless.kill()
    assert eventually(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)


def test_ctrl_c_ends_both_without_a_trace(endless: subprocess.Popen[str]) -> None:
    (worker,) = workers(endless.pid)
    os.killpg(endless.pid, signal.SIGINT)
    _, shown = endless.communicate(timeout=60)
    assert endless.returncode == 130
    assert "Traceback" not in shown
    assert len(shown.splitlines()) <= 1
    assert eventually(lambda: not worker.is_running())


def test_an_assertion_that_fails_in_llama_cpp_is_quoted(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with GGUFFile.open(path) as file:
        engine = LlamaCppEngine(file, threads=1, ctx=None, kv_type="f16")
        engine.max_rows = 512  # llama.cpp was told 256, and ends its process where more come
        with pytest.raises(EdgeLLMError, match=r"GGML_ASSERT\(.*\) failed") as caught:
            engine.forward([Segment(engine.new_sequence(), [1] * 300)])
        engine.close()
    assert "SIGABRT" in str(caught.value)
    assert capfd.readouterr() == ("", "")
