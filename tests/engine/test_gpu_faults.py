"""What a GPU cannot do, the CPU does: from the same place, with one line, and nothing is left behind."""

import gc
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import EdgeLLMError, EdgeLLMWarning, Model
from edgellm.engine import model_runner
from edgellm.engine.device import DeviceFault
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.offload import OffloadRequest
from edgellm.engine.protocol import Segment
from edgellm.engine.webgpu import context, detection
from edgellm.engine.webgpu.context import GPUContext
from support.gpus import TINY, adapter, gpu_of, logits, opened, some_ids
from support.model_file import ModelFile

on = contextmanager(opened)
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("here")]
LENIENT = {"offload": OffloadRequest("all")}
METHODS = ("submit", "read", "write", "_make")


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    adapter()
    return model_file(**TINY)


def reply(path: Path, told: list[tuple[str, int]] | None = None, **options: Any) -> list[int]:
    """The tokens of a second reply; `told` are the names and blocks of the devices in its figures."""
    with Model.open(path, threads=1, **options) as model:
        model.generate("a", max_tokens=2, temp=0)
        made = model.generate("a b c d e f", max_tokens=8, temp=0, logit_bias={2: -np.inf})
        devices = [(device["name"], device["blocks"]) for device in made.stats.devices]
        assert devices == told if told else devices[0][0] == "CPU"
        return made.tokens


def held() -> dict[str, int]:
    """How many things of each kind wgpu's library holds; adapters stay."""
    import wgpu

    gc.collect()
    counts = wgpu.diagnostics.get_dict()["wgpu_native_counts"]
    return {kind: each["count"] for kind, each in counts.items() if each["count"] and kind not in ("Adapter", "total")}


def lose(engine: NativeEngine) -> None:
    """The driver takes the device away."""
    from wgpu.backends.wgpu_native import lib

    lib.wgpuDeviceDestroy(gpu_of(engine).gpu._device._internal)


class Failing:
    """Lets the n-th call of any method of a GPU fail."""

    def __init__(self, patch: pytest.MonkeyPatch, n: int, out_of_memory: bool) -> None:
        self.calls, self.failed = 0, False
        for name in ("_make",) if out_of_memory else METHODS:
            patch.setattr(GPUContext, name, self.wrapped(getattr(GPUContext, name), n, out_of_memory))

    def wrapped(self, method: Any, n: int, out_of_memory: bool) -> Any:
        def call(gpu: GPUContext, *arguments: Any, **more: Any) -> Any:
            self.calls += 1
            if self.calls == n:
                self.failed = True
                raise DeviceFault("a fault", out_of_memory=out_of_memory)
            return method(gpu, *arguments, **more)

        return call


def test_faults_at_any_moment(path: Path) -> None:
    """Faults at 9 calls of wgpu, evenly spaced over opening and generating, change no text."""
    wanted = reply(path, gpu_layers=0)
    with pytest.MonkeyPatch.context() as patch:
        counting = Failing(patch, 10**9, False)
        assert reply(path, gpu_layers="all") == wanted
    before = held()
    for n in np.linspace(1, counting.calls, 9).astype(int):
        with pytest.MonkeyPatch.context() as patch, pytest.warns(EdgeLLMWarning, match="a fault: the CPU computes"):
            failing = Failing(patch, int(n), False)
            assert reply(path, [("CPU", 5)], gpu_layers="all") == wanted
        assert failing.failed
    assert held() == before


def test_too_little_memory_at_any_moment(path: Path) -> None:
    """At the beginning or in the middle of a reply: fewer layers stay on the GPUContext."""
    wanted, name = reply(path, gpu_layers=0), adapter().name
    with pytest.MonkeyPatch.context() as patch:
        counting = Failing(patch, 10**9, True)
        assert reply(path, gpu_layers="all") == wanted
    for n in range(1, counting.calls, 12):
        with pytest.MonkeyPatch.context() as patch, pytest.warns(EdgeLLMWarning, match=r"a fault: trying .* \(1\)$"):
            Failing(patch, n, True)
            assert reply(path, [("CPU", 3), (name, 2)], gpu_layers="all") == wanted


def test_a_lost_device(path: Path) -> None:
    """The driver takes it away, while sequences hold state there: the CPU computes that anew."""
    ids = some_ids(90)
    with on(path, 0) as engine:
        wanted = logits(engine, ids)
    with on(path, 1, **LENIENT) as engine:
        first, empty = engine.new_sequence(), engine.new_sequence()
        engine.forward([Segment(first, ids[:70])])
        second = first.fork()
        engine.forward([Segment(second, ids[70:80])])
        assert not engine.batch_invariant
        lose(engine)
        with pytest.warns(EdgeLLMWarning, match="the CPU computes") as told:
            found = engine.forward([Segment(first, ids[70:72], [1]), Segment(second, ids[80:], [9])])
        assert len(told) == 1
        assert np.array_equal(found, wanted[[71, 89]])
        assert np.array_equal(engine.forward([Segment(empty, ids[:3], [2])]), wanted[2:3])
        assert second.trim(40) == 40
        assert np.array_equal(engine.forward([Segment(second, ids[40:42], [1])]), wanted[41:42])
        assert [device["name"] for device in engine.devices] == ["CPU"]
        assert engine.batch_invariant


@pytest.mark.parametrize("method", ["dispatch", "write", "_encoded", "read"])
def test_a_device_that_is_lost_before_a_call(path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """In the middle of a reply. Not before `_start`: where wgpu refuses a submission it ends the process."""
    from wgpu.backends.wgpu_native import lib

    wanted, original, calls = reply(path, gpu_layers=0), getattr(GPUContext, method), 0

    def lost(gpu: GPUContext, *arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 9:
            lib.wgpuDeviceDestroy(gpu._device._internal)
        return original(gpu, *arguments, **more)

    monkeypatch.setattr(GPUContext, method, lost)
    with pytest.warns(EdgeLLMWarning, match="the CPU computes"):
        assert reply(path, gpu_layers="all") == wanted
    assert calls >= 9


@pytest.mark.parametrize("error", [KeyboardInterrupt, EdgeLLMError("no memory")])
def test_a_fall_back_that_fails_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Ctrl-C while kernels for the CPU are compiled, or no memory there: the sequences are as they were."""
    ids = some_ids(9)
    with on(path, 0) as engine:
        wanted = logits(engine, ids)

    def fail(*arguments: object) -> None:
        raise error

    with on(path, 1, **LENIENT) as engine, pytest.warns(EdgeLLMWarning, match="the CPU computes"):
        sequence = engine.new_sequence()
        engine.forward([Segment(sequence, ids[:8])])
        lose(engine)
        monkeypatch.setattr(model_runner, "CPUDevice", fail)
        with pytest.raises(error if isinstance(error, type) else type(error)):
            engine.forward([Segment(sequence, ids[8:], [0])])
        monkeypatch.undo()
        assert np.array_equal(engine.forward([Segment(sequence, ids[8:], [0])]), wanted[8:])


def test_strictly_a_lost_device_is_an_error(path: Path) -> None:
    with on(path, "all") as engine:
        lose(engine)
        with pytest.raises(EdgeLLMError, match="without --gpu-strict the CPU would compute"):
            logits(engine, some_ids(5))


def test_memory_that_the_driver_has_not(path: Path) -> None:
    with on(path, 1) as engine:
        gpu = gpu_of(engine).gpu
        with pytest.raises(DeviceFault, match=gpu.name.split()[0]) as fault:
            gpu._make(1 << 50, "STORAGE")
        assert "\n" not in str(fault.value)


def test_without_wgpu(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "find_spec", lambda name: None)
    path = model_file(**TINY)
    with pytest.warns(EdgeLLMWarning, match=r"-m pip install 'wgpu>=[0-9.]+'; until then the CPU computes"):
        assert reply(path, gpu_layers=4) == reply(path, gpu_layers=0)
    with pytest.raises(EdgeLLMError, match="wgpu is not installed"):
        reply(path, gpu_layers=4, gpu_strict=True)
    assert reply(path) == reply(path, gpu_layers=0)


def test_an_unknown_gpu(path: Path) -> None:
    for name in ("nothing like it", "77"):
        with pytest.warns(EdgeLLMWarning, match=f"`edgellm devices` lists no GPU {name}: the CPU computes"):
            reply(path, gpu_layers=1, gpu=name)


def test_the_terminal_stays_clean(path: Path) -> None:
    """Drivers write to stderr itself, and wgpu to a log."""
    code = f"from edgellm import Model\nwith Model.open({str(path)!r}, gpu_layers='all', gpu_strict=True) as m:"
    code += "\n    m.generate('a', max_tokens=2)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_an_interrupt_leaves_all_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while Python waits for a result: what is on its way there is not mistaken for the next one."""
    ids = some_ids(9)
    with on(path, "all") as engine:
        wanted, sequence = logits(engine, ids), engine.new_sequence()
        staging = gpu_of(engine).gpu.staging(8)
        map_sync = type(staging).map_sync

        def interrupted(*arguments: Any) -> None:
            monkeypatch.undo()
            staging.map_async(*arguments[1:])
            raise KeyboardInterrupt

        monkeypatch.setattr(type(staging), "map_sync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.forward([Segment(sequence, ids, [8])])
        assert type(staging).map_sync is map_sync
        assert len(sequence) == 0
        assert np.allclose(engine.forward([Segment(sequence, ids, [8])]), wanted[8:], atol=1e-4)


def test_closing_frees_everything(path: Path) -> None:
    before = held()
    with on(path, "all") as engine:
        logits(engine, some_ids(5))
        assert held()["Buffer"] > before.get("Buffer", 0) + 30
    # The library may have freed what tests before have dropped, too.
    assert {kind: count for kind, count in held().items() if count > before.get(kind, 0)} == {}


def test_a_mistake_of_ours_is_no_fault_of_the_gpu(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on(path, 1, **LENIENT) as engine:
        monkeypatch.setattr(context, "encode", lambda *given: given.nonsense)  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match="nonsense"):
            logits(engine, some_ids(5))
