"""The process that has the GPU: it may end, hang or be stopped at any time, and the reply goes on all the same."""

import errno
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from edgellm import EdgeLLMError, EdgeLLMWarning, Model
from edgellm.engine.device import DeviceFault
from edgellm.engine.gpu_process import CALL, RAISED, DeviceProxy, HiddenMemory, packed, unpacked
from edgellm.engine.gpu_worker import GPUWorker
from edgellm.engine.protocol import Segment, Stopped
from edgellm.gguf import GGUFFile
from edgellm.process.shared_memory import SharedMemory
from support.gpus import TINY, adapter, engine_on, logits, some_ids
from support.model_file import ModelFile
from support.vulkan import build

pytestmark = pytest.mark.gpu

PROMPT, SHORT = "a b c d e f", "a"
SETTING: dict[str, Any] = {"max_tokens": 12, "temp": 0, "logit_bias": {2: -np.inf}}


@pytest.fixture(scope="session")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a Vulkan loader that lets things go wrong (see vulkan_faults.c)."""
    folder = build(tmp_path_factory.mktemp("vulkan"))
    if not folder:
        pytest.skip("needs a C compiler and Vulkan's loader, on Linux")
    return folder


@pytest.fixture
def wrong(loader: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Sets VULKAN_FAULT, VULKAN_HANG or VULKAN_MEMORY for processes to come."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(loader))
    return monkeypatch


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    adapter()
    return model_file(**TINY)


def workers() -> list[psutil.Process]:
    """The processes with a GPU that this one has."""
    return [child for child in psutil.Process().children() if "edgellm.engine.gpu_worker" in child.cmdline()]


def alone(path: Path, prompt: str = PROMPT) -> list[int]:
    """What the CPU writes."""
    with Model.open(path, threads=1, gpu_layers=0) as model:
        return model.generate(prompt, **SETTING).tokens


def gpu_of(model: Model) -> DeviceProxy:
    device = model.engine._runner.gpu  # type: ignore[attr-defined]
    assert isinstance(device, DeviceProxy)
    return device


def told(model: Model) -> list[tuple[str, int]]:
    return [(device["name"], device["blocks"]) for device in model.engine.devices]


LOST, FULL = "the device was lost: the CPU computes", r"its memory is full: trying fewer layers \(1\)"
FAULTS = {
    "lost when something is submitted": ("vkQueueSubmit,4,-4", LOST),
    "lost while it computes": ("vkWaitSemaphores,4,-4", LOST),
    "lost between calls": ("vkGetSemaphoreCounterValue,4,-4", LOST),
    "no memory to submit": ("vkQueueSubmit,4,-2", FULL),
    "no memory for commands": ("vkBeginCommandBuffer,4,-2", FULL),
    "no memory for pipelines": ("vkCreateComputePipelines,1,-2", FULL),
}
"""The error of the driver, the submission from which on it comes, and the warning.

The few tokens of SHORT are the first submission, and each further token is another.
"""


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_the_driver_says(path: Path, wrong: pytest.MonkeyPatch, name: str) -> None:
    """In the middle of a reply."""
    fault, line = FAULTS[name]
    wanted = alone(path, SHORT)
    wrong.setenv("VULKAN_FAULT", fault)
    with Model.open(path, threads=1, gpu_layers="all") as model:
        reply = model.stream(SHORT, **SETTING)
        first = next(reply)
        wrong.delenv("VULKAN_FAULT")
        with pytest.warns(EdgeLLMWarning, match=line) as notices:
            ids = [first.id, *(token.id for token in reply)]
        assert ids == wanted
        assert told(model) == ([("CPU", 5)] if line == LOST else [("CPU", 3), (adapter().name, 2)])
    assert [str(notice.message).count("\n") for notice in notices] == [0]
    assert workers() == []


GONE = {
    "killed": "was ended by signal SIGKILL",
    "hung": "did not answer within 0.5 s and was killed",
    "closed": "was closed",
}
"""Ends of the process, and the warnings."""


@pytest.mark.parametrize("how", GONE)
def test_a_process_that_is_gone(path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A driver may end it, or wait for ever; then it is ended. An interrupt may come between its end and the next."""
    wanted = alone(path)
    with Model.open(path, threads=1, gpu_layers=2) as model:
        reply, (worker,) = model.stream(PROMPT, **SETTING), workers()
        ids = [next(reply).id, next(reply).id]
        monkeypatch.setattr(gpu_of(model)._child, "reply_timeout_s", 0.5)
        if how == "closed":
            gpu_of(model).close()
        else:
            worker.send_signal(signal.SIGSTOP if how == "hung" else signal.SIGKILL)
        with pytest.warns(EdgeLLMWarning, match=f": its process {GONE[how]}: the CPU computes"):
            ids += [token.id for token in reply]
        assert ids == wanted
        assert reply.stats.devices == reply.live().stats.devices == model.engine.devices
        assert told(model) == [("CPU", 5)]
        assert not psutil.pid_exists(worker.pid)


def test_a_driver_that_hangs(path: Path, wrong: pytest.MonkeyPatch) -> None:
    wanted = alone(path)
    wrong.setenv("VULKAN_HANG", "12")
    with Model.open(path, threads=1, gpu_layers="all") as model:
        wrong.setattr(gpu_of(model)._child, "reply_timeout_s", 3.0)
        with pytest.warns(EdgeLLMWarning, match="did not answer within 3 s and was killed: the CPU computes"):
            assert model.generate(PROMPT, **SETTING).tokens == wanted


def test_memory_of_the_gpu_that_is_short(model_file: ModelFile, wrong: pytest.MonkeyPatch) -> None:
    """Each try has a fresh process, in which nothing of the one before takes memory."""
    path, name = model_file(**(TINY | {"ffn": 1 << 16, "layers": 4})), adapter().name
    wrong.setenv("VULKAN_MEMORY", str(330 << 20))
    with pytest.warns(EdgeLLMWarning, match=r"its memory is full: trying fewer layers \([321]\)"):
        model = Model.open(path, threads=1, gpu_layers="all")
    with model:
        (_, on_cpu), (there, on_gpu) = told(model)
        assert (there, on_cpu + on_gpu) == (name, 9)
        assert 0 < on_gpu < 8
    with pytest.raises(EdgeLLMError, match="its memory is full; without --gpu-strict"):
        Model.open(path, threads=1, gpu_layers="all", gpu_strict=True)
    assert workers() == []


def test_a_slow_gpu_is_not_taken_for_one_that_hangs(path: Path) -> None:
    """It gives a sign of life after the first block of a prompt, and again after the next."""
    with GGUFFile.open(path) as file:
        engine, signs = engine_on(file, 1), list[bytes]()
        child = engine._runner.gpu._child  # type: ignore[union-attr]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(child, "call", lambda *given, call=child.call: call(*given[:2], signs.append))
            engine.forward([Segment(engine.new_sequence(), some_ids(20))])
        engine.close()
    assert len(signs) == 2


def test_an_interrupt_leaves_the_process_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a reply is waited for: what comes of it is not mistaken for the next one."""
    ids = some_ids(9)
    with GGUFFile.open(path) as file:
        engine = engine_on(file, "all")
        wanted, sequence, child = logits(engine, ids), engine.new_sequence(), engine._runner.gpu._child  # type: ignore[union-attr]

        def interrupted(*given: object) -> None:
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(child, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.forward([Segment(sequence, ids, [8])])
        assert len(sequence) == 0
        assert np.allclose(engine.forward([Segment(sequence, ids, [8])]), wanted[8:], atol=1e-4)
        engine.close()


def test_ctrl_c_while_it_uploads(path: Path) -> None:
    def interrupted(done: int, total: int) -> None:
        assert 0 < done <= total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Model.open(path, gpu_layers="all", uploading=interrupted)
    assert workers() == []


def test_a_stop_ends_a_prompt(model_file: ModelFile) -> None:
    """From another thread, and between layers; then it goes on as if nothing had been."""
    adapter()
    path, ids = model_file(**(TINY | {"layers": 12, "ffn": 512})), some_ids(200)
    with GGUFFile.open(path) as file:
        engine = engine_on(file, "all")
        wanted, sequence = logits(engine, ids)[-1:], engine.new_sequence()
        stopper = threading.Timer(0.05, engine.stop)
        stopper.start()
        with pytest.raises(Stopped):
            for _ in range(50):
                engine.forward([Segment(engine.new_sequence(), ids, [199])])
        stopper.join()
        engine.clear_stop()
        assert np.allclose(engine.forward([Segment(sequence, ids, [199])]), wanted, atol=1e-4)
        engine.close()
        with pytest.raises(EdgeLLMError, match="closed"):
            engine.forward([Segment(sequence, ids[:1])])


def test_another_file_in_its_place_is_not_used(model_file: ModelFile, tmp_path: Path) -> None:
    """Once memory is short, and the file is opened again for fewer layers."""
    path, other = tmp_path / "model.gguf", model_file(**(TINY | {"ffn": 32}))
    adapter()
    shutil.copy(model_file(**TINY), path)
    wanted = alone(path)
    with Model.open(path, threads=1, gpu_layers=2) as model:
        reply = model.stream(PROMPT, **SETTING)
        ids = [next(reply).id]
        shutil.copy(other, tmp_path / "new.gguf")
        (tmp_path / "new.gguf").replace(path)
        gpu_of(model)._child._to_fault = lambda name, said: DeviceFault("full", out_of_memory=True)
        workers()[0].kill()
        with pytest.warns(EdgeLLMWarning) as notices:
            ids += [token.id for token in reply]
        assert told(model) == [("CPU", 5)]
    assert ids == wanted
    first, second = (str(notice.message) for notice in notices)
    assert first == "full: trying fewer layers (1)"
    assert second == f"{path} is not the file any more that was opened: the CPU computes"


def test_a_mistake_of_ours_is_told_as_such() -> None:
    """It is no fault of the GPU, which the CPU would make up for."""
    code, payload = GPUWorker(SharedMemory.create()).answer(
        CALL, packed(("ensure_pages", (0, 3))), lambda progress: None
    )
    error = unpacked(payload)
    assert (code, type(error)) == (RAISED, RuntimeError)
    assert "AssertionError: the upload comes first" in str(error)


def test_no_memory_in_its_process_is_a_fault_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none on this machine, so that the CPU goes on."""
    server = GPUWorker(SharedMemory.create())

    def full(group: int, pages: int) -> None:
        raise MemoryError

    monkeypatch.setattr(server, "_ensure_pages", full)
    code, payload = server.answer(CALL, packed(("ensure_pages", (0, 3))), lambda progress: None)
    assert (code, type(unpacked(payload))) == (RAISED, DeviceFault)


def test_no_memory_to_share_is_a_fault_of_the_gpu(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On our side of it; on the other one MemoryError becomes a fault, too."""
    wanted = alone(path)

    def full(self: SharedMemory, nbytes: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(SharedMemory, "array", full)
    line = r"no memory to share .*\(Cannot allocate memory\): the CPU computes"
    with Model.open(path, threads=1, gpu_layers="all") as model, pytest.warns(EdgeLLMWarning, match=line):
        assert model.generate(PROMPT, **SETTING).tokens == wanted
    with pytest.raises(MemoryError, match="Cannot allocate memory"):
        HiddenMemory(SharedMemory.create(), 1, 8)
    assert workers() == []


def test_it_ends_with_its_parent(path: Path) -> None:
    code = f"from edgellm import Model\nimport time\nm = Model.open({str(path)!r}, gpu_layers=1, gpu_strict=True)"
    code += "\nprint(m.engine._runner.gpu._child.pid, flush=True)\ntime.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    worker = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    worker.wait(20)
