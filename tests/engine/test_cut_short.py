"""A model file that another program cuts short while it is mapped: errors, never the end of the process."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from edgellm import Model
from edgellm.cli.verify import command as verify
from edgellm.engine.protocol import Engine, Segment, Sequence
from edgellm.errors import EdgeLLMError, ModelFileError
from edgellm.generate.draft_loading import DraftLoading
from edgellm.generate.session import Session
from edgellm.gguf import GGUFFile, sigbus
from edgellm.gguf.check import find_problems
from edgellm.gguf.mapped_file import MappedFile
from edgellm.perplexity import perplexity
from support import gguf_bytes as raw
from support.chat_model import write_chat_model
from support.gpus import TINY, adapter
from support.model_file import ModelFile
from tui.core.edge_backend import EdgeBackend
from tui.core.events import ModelOpened, ReplyEnded
from tui.core.reply_request import ReplyRequest
from tui.core.worker import Worker

GREEDY: dict[str, Any] = {"max_tokens": 60, "temp": 0}
ASKED = [{"role": "user", "content": "hello"}]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows does not let a mapped file be cut short")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A chat model of its own for the test; what is lost of it reads as zeros."""
    sigbus.install()
    return write_chat_model(tmp_path / "model.gguf")


def cut_message(path: Path, left: str) -> str:
    return rf"{path}: was cut short while it was in use: {left} of .*; get it again, then reopen it"


def test_what_is_lost_reads_as_zeros_and_is_told(path: Path) -> None:
    with GGUFFile.open(path) as file:
        whole = {name: bytes(tensor.data) for name, tensor in file.tensors.items()}
        half = path.stat().st_size // 2 // 4096 * 4096
        file.check()
        os.truncate(path, half)
        for name, tensor in file.tensors.items():
            left = max(0, half - tensor.offset)
            assert bytes(tensor.data) == whole[name][:left] + bytes(max(0, tensor.nbytes - left))
        with pytest.raises(ModelFileError, match=cut_message(path, ".*")):
            file.check()


def test_a_cut_within_the_last_page_is_told_too(path: Path) -> None:
    """Linux reads zeros there, without a signal."""
    with GGUFFile.open(path) as file:
        os.truncate(path, path.stat().st_size - 1)
        with pytest.raises(ModelFileError, match="was cut short"):
            file.check()


def test_a_file_that_was_short_for_a_while_is_told(path: Path) -> None:
    content = path.read_bytes()
    with GGUFFile.open(path) as file:
        os.truncate(path, 0)
        assert not file.tensors["output_norm.weight"].data.any()
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=rf"{path}: could not be read while it was in use"):
            file.check()


def test_a_header_that_was_lost_while_it_was_read_is_not_believed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_then_map(mapped: MappedFile) -> MappedFile:
        os.truncate(path, 0)
        return mapped

    monkeypatch.setattr("edgellm.gguf.part._in_huge_pages", cut_then_map)
    with pytest.raises(ModelFileError, match=cut_message(path, "0 bytes")):
        GGUFFile.open(path)


@pytest.mark.parametrize("left", [0, 4096, 100_000])
def test_a_reply_ends_with_an_error_and_no_word_that_the_whole_file_would_not_give(path: Path, left: int) -> None:
    with Model.open(path, threads=2) as model:
        whole = model.generate("hello", **GREEDY).tokens
        reply = model.stream("hello", **GREEDY)
        came = [next(reply).id for _ in range(5)]
        os.truncate(path, left)
        with pytest.raises(ModelFileError, match=r"model\.gguf: was cut short"):
            came += [token.id for token in reply]
        assert came == whole[:5]
        assert reply.finish_reason == "cancelled"
        for compute in (lambda: model.logits([1, 2, 3]), lambda: model.chat().send("hello")):
            with pytest.raises(ModelFileError, match="was cut short"):
                compute()


def test_a_file_that_another_one_replaces_goes_on(path: Path, tmp_path: Path) -> None:
    other = write_chat_model(tmp_path / "other.gguf", seed=1)
    with Model.open(path) as model:
        whole = model.generate("hello", **GREEDY).tokens
        other.replace(path)
        assert model.generate("hello", **GREEDY).tokens == whole


ROUNDS = """
import os, random, shutil, sys, threading, time
from edgellm import Model
from edgellm.errors import ModelFileError

source, path, greedy = sys.argv[1], sys.argv[2], {"max_tokens": 2000, "temp": 0}
with Model.open(source, threads=2) as model:
    whole = model.generate("hello", **greedy).tokens
random.seed(0)
for round in range(20):
    shutil.copy(source, path)
    with Model.open(path, threads=2) as model:
        cut = threading.Timer(0.05 * random.random(), os.truncate, (path, random.randrange(1000, 300_000)))
        cut.start()
        tokens = []
        try:
            for token in model.stream("hello", **greedy):
                tokens.append(token.id)
        except ModelFileError as error:
            assert "was cut short" in str(error), error
            assert tokens == whole[: len(tokens)], "computed with what was lost"
            print("told")
        cut.join()
"""


def test_cut_at_any_moment(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ROUNDS, str(path), str(tmp_path / "copy.gguf")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", ["told"] * 20)


def test_generate_ends_with_one_line(path: Path) -> None:
    command = [sys.executable, "-m", "edgellm", "generate", str(path), "-p", "hello", "--temp", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.read(1)
        os.truncate(path, 1000)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert told.splitlines()[-1].startswith(f"edgellm: {path}: was cut short while it was in use: 1 kB of ")
    assert "Traceback" not in told


def test_the_chat_stays_open(path: Path) -> None:
    content, told = path.read_bytes(), Queue[Any]()
    worker = Worker(EdgeBackend(), told.put)
    try:
        worker.open(str(path), lambda name, path: {})
        assert isinstance(told.get(timeout=60), ModelOpened)
        worker.reply(ReplyRequest(1, ASKED, {"temp": 0.0}, save=lambda message, text: os.truncate(path, 1000)))
        ended = told.get(timeout=60)
        assert isinstance(ended, ReplyEnded)
        assert (ended.finish_reason, bool(ended.text)) == ("error", True)
        assert ended.problem and "was cut short" in ended.problem
        path.unlink()
        path.write_bytes(content)
        worker.open(str(path), lambda name, path: {})
        assert isinstance(told.get(timeout=60), ModelOpened)
        worker.reply(ReplyRequest(2, ASKED, {"max_tokens": 5}))
        assert told.get(timeout=60).finish_reason == "length"
    finally:
        worker.close()


def test_verify_says_that_the_file_is_not_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = tuple(raw.f32_tensor(name, (2048,), 8192 * i, [np.nan] * 2048) for i, name in enumerate("ab"))
    whole = raw.RawGGUF(tensors=tensors)
    path = tmp_path / "model.gguf"

    def cut_then_find(file: GGUFFile) -> Iterator[str]:
        os.truncate(path, 9000)
        return find_problems(file)

    with GGUFFile.open(whole.write(path)) as file:
        problems = find_problems(file)
        assert "tensor a (F32) has NaN" in next(problem for problem in problems if "tensor" in problem)
        os.truncate(path, 9000)
        with pytest.raises(ModelFileError, match="was cut short"):
            list(problems)
    monkeypatch.setattr("edgellm.cli.verify.find_problems", cut_then_find)
    for options in ([], ["--json"]):
        whole.write(path)
        done = CliRunner().invoke(verify, [str(path), *options])
        assert isinstance(done.exception, ModelFileError)
        assert "was cut short" in str(done.exception)
        assert not options or json.loads(done.output)["ok"] is False


def test_perplexity_of_a_file_that_is_cut_is_no_figure(path: Path) -> None:
    with Model.open(path) as model, pytest.raises(ModelFileError, match="was cut short"):
        perplexity(model, "the time was on and in the inn " * 20, ctx=32, progress=lambda so_far: os.truncate(path, 0))


def test_a_model_that_is_cut_while_it_opens_leaves_no_engine(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[tuple[Engine, Segment[Sequence]]]()

    def cut(loading: DraftLoading, session: Session, engine: Engine) -> None:
        opened.append((engine, Segment(engine.new_sequence(), [1])))
        os.truncate(path, 1000)

    monkeypatch.setattr(DraftLoading, "begin", cut)
    with pytest.raises(ModelFileError, match="was cut short"):
        Model.open(path)
    engine, segment = opened[0]
    with pytest.raises(EdgeLLMError, match="the engine was closed"):
        engine.forward([segment])


@pytest.mark.gpu
def test_what_goes_to_a_gpu_is_whole(model_file: ModelFile, tmp_path: Path) -> None:
    adapter()
    path = Path(shutil.copy(model_file(**TINY), tmp_path / "model.gguf"))
    told: list[int] = []

    def cut(done: int, total: int) -> None:
        told.append(done)
        os.truncate(path, 4096)

    with pytest.raises(ModelFileError, match=r"model\.gguf: was cut short"):
        Model.open(path, gpu_layers="all", gpu_strict=True, uploading=cut)
    assert told


OTHERS = """
import faulthandler, mmap, os, signal, sys, time
from pathlib import Path
from edgellm.gguf import GGUFFile, sigbus

path, when, how = sys.argv[1:]
handled = []
def enable():
    if when.endswith("signal"):
        signal.signal(signal.SIGBUS, lambda number, frame: handled.append(number))
    elif when.endswith("faulthandler"):
        faulthandler.enable()
if when.startswith("before"):
    enable()
sigbus.install()
if when.startswith("after"):
    enable()
    sigbus.install()
file = GGUFFile.open(path)
Path(path + ".other").write_bytes(bytes(10_000))
with open(path + ".other", "rb") as opened:
    other = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
os.truncate(path, 0)
assert not file.tensors["output_norm.weight"].data.any()
if how == "kill":
    os.kill(os.getpid(), signal.SIGBUS)
else:
    os.truncate(path + ".other", 0)
    other[5000]
print("handled", handled == [signal.SIGBUS])
"""


@pytest.mark.parametrize("how", ["kill", "fault"])
@pytest.mark.parametrize("when", ["never", "before faulthandler", "after faulthandler", "before signal"])
def test_other_signals_go_where_they_went_before(path: Path, when: str, how: str) -> None:
    if (when, how) == ("before signal", "fault"):
        pytest.skip("Python's handlers cannot end a fault")
    command = [sys.executable, "-c", OTHERS, str(path), when, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if when == "before signal":
        assert (done.returncode, done.stdout) == (0, "handled True\n")
    else:
        assert done.returncode == -signal.SIGBUS
        assert done.stderr.count("Fatal Python error: Bus error") == ("faulthandler" in when)


def test_maps_come_and_go(path: Path, tmp_path: Path) -> None:
    """More of them than are watched at once; one with views in use lives, and is watched, as long as these."""
    small = raw.RawGGUF().write(tmp_path / "small.gguf")
    for _ in range(1100):
        GGUFFile.open(small).close()
    with GGUFFile.open(path) as file:
        weights = file.tensors["output_norm.weight"].data
    del file
    os.truncate(path, 0)
    assert not weights.any()
