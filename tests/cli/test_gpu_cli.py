"""Layers on a GPU: the choice of auto, the plan, the list of devices, the benchmark."""

import ctypes
import json
import re
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgellm import EdgeLLMError, EdgeLLMWarning, Model
from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.bench import machine_limits, rounds, setup
from edgellm.cli import plan as plan_module
from edgellm.cli.bench import command as bench
from edgellm.cli.devices import command as devices
from edgellm.cli.plan import command as plan
from edgellm.engine import offload_cost
from edgellm.engine.backends import OffloadPlan
from edgellm.engine.device import DeviceFault
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import OffloadRequest
from edgellm.engine.placement import CPU, GPU, longest_run
from edgellm.engine.webgpu import detection, memory, offload_plan
from edgellm.engine.webgpu.adapters import Adapter
from edgellm.engine.webgpu.detection import may_have_discrete_gpu
from edgellm.engine.webgpu.fit import gpu_memory
from edgellm.engine.webgpu.offload_plan import MARGIN, plan_offload
from edgellm.fmt import size
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf.roofline import LAYER_S, TOKEN_S
from support.gpus import TINY, adapter
from support.make_gguf import write_model
from support.model_file import ModelFile

pytestmark = pytest.mark.gpu

SIZES = BatchLimits(rows=64, ctx=512, kv_type="f16")
MIXED = {"": "F16", "ffn_down": "BF16", "attn_v": "Q4_1"}
"""A model whose token mixers have a type without a shader."""


def some_adapter(kind: str = "discrete GPU") -> Adapter:
    return Adapter("Some GPU", kind, "Vulkan", (), 1 << 30, None)


@pytest.fixture
def discrete(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a discrete GPU."""
    monkeypatch.setattr(detection, "may_have_discrete_gpu", lambda: True)
    monkeypatch.setattr(offload_plan, "select_adapter", lambda gpu: some_adapter())


def blocks_there(path: Path, offload: OffloadRequest) -> int:
    with GGUFFile.open(path) as file:
        choice = plan_offload(describe(file), SIZES, offload)
    return choice.placement.count(GPU) if choice else 0


@pytest.mark.usefixtures("discrete")
def test_auto_fills_the_memory_that_is_free(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model_file(**(TINY | {"layers": 3}))
    with GGUFFile.open(path) as file:
        model = describe(file)
        needed = [sum(gpu_memory(model, longest_run([True] * 7, n), SIZES).values()) for n in range(5)]
    assert needed == sorted(set(needed))
    for n in range(1, 5):
        monkeypatch.setattr(offload_plan, "free_memory", lambda adapter, free=needed[n] / MARGIN + 9: int(free))
        assert blocks_there(path, OffloadRequest("auto")) == min(2 * n, 7 if n == 4 else 6)
        monkeypatch.setattr(offload_plan, "free_memory", lambda adapter: 0)
        for layers in ("auto", "all", 4):  # what is allowed is a limit for all of them, and is used up
            assert blocks_there(path, OffloadRequest(layers, memory=needed[n])) == min(2 * n, 7 if n == 4 else 6)
            assert blocks_there(path, OffloadRequest(layers, memory=needed[n] - 1)) == 2 * n - 2
        assert blocks_there(path, OffloadRequest(n, memory=needed[4])) == min(2 * n, 7 if n == 4 else 6)
    monkeypatch.setattr(offload_plan, "free_memory", lambda adapter: None)
    assert blocks_there(path, OffloadRequest("auto")) == 0


@pytest.mark.parametrize("kind", ["integrated GPU", "software", "other"])
def test_auto_takes_only_a_gpu_with_its_own_memory(
    model_file: ModelFile, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(detection, "may_have_discrete_gpu", lambda: True)
    monkeypatch.setattr(offload_plan, "select_adapter", lambda gpu: some_adapter(kind))
    path = model_file(**TINY)
    assert blocks_there(path, OffloadRequest("auto", memory=1 << 40)) == 0
    assert blocks_there(path, OffloadRequest("auto", gpu="Some", memory=1 << 40)) == 5
    assert blocks_there(path, OffloadRequest(1)) == 2


def test_auto_says_nothing_where_no_gpu_works(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(gpu: str | None) -> Adapter:
        raise DeviceFault("wgpu does not work here")

    monkeypatch.setattr(detection, "may_have_discrete_gpu", lambda: True)
    monkeypatch.setattr(offload_plan, "select_adapter", choose)
    assert blocks_there(model_file(**TINY), OffloadRequest("auto")) == 0
    with pytest.raises(DeviceFault):
        blocks_there(model_file(**TINY), OffloadRequest("auto", gpu="this one"))


def test_auto_does_nothing_where_there_is_no_gpu(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "may_have_discrete_gpu", lambda: False)
    monkeypatch.setattr(offload_plan, "select_adapter", lambda gpu: pytest.fail("looked for adapters"))
    with warnings.catch_warnings(), Model.open(model_file(**TINY), threads=1) as model:
        assert [device["name"] for device in model.engine.devices] == ["CPU"]


def test_blocks_without_a_shader_stay_on_the_cpu(tmp_path: Path) -> None:
    name, path = adapter().name, write_model(tmp_path / "mixed.gguf", **(TINY | {"types": MIXED}))
    why = "there is no shader for weights of type Q4_1: the CPU computes 2 of 2 layers"
    planned = CliRunner().invoke(plan, [str(path), "--gpu-layers", "all"]).stdout
    assert f"note: {why}" in planned
    assert f"2 blocks on {name}" in planned
    strictly = CliRunner().invoke(plan, [str(path), "--gpu-layers", "all", "--gpu-strict"])
    assert isinstance(strictly.exception, EdgeLLMError)
    assert why in str(strictly.exception)
    with pytest.warns(EdgeLLMWarning, match=why), Model.open(path, gpu_layers="all", threads=1) as whole:
        assert [device["blocks"] for device in whole.engine.devices] == [3, 2], "the last feed-forward and the head"
        text = whole.generate("a", max_tokens=9, temp=0).text
    with pytest.raises(EdgeLLMError, match=why):
        Model.open(path, gpu_layers="all", gpu_strict=True)
    with pytest.warns(EdgeLLMWarning, match="there is no shader for weights of type Q4_1: the CPU computes"):
        Model.open(path, gpu_layers=1, cpu_ffn=True, threads=1).close()
    with pytest.warns(
        EdgeLLMWarning, match="is not known; give --gpu-memory GB or --gpu-layers N; until then the CPU computes"
    ):
        Model.open(path, gpu="0", threads=1).close()
    with Model.open(path, gpu_layers=0, threads=1) as alone:
        assert alone.generate("a", max_tokens=9, temp=0).text == text


def test_the_plan(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    name = adapter().name
    path = str(model_file(**TINY))
    found = json.loads(CliRunner().invoke(plan, [path, "--gpu-layers", "1", "--gpu-memory", "8", "--json"]).stdout)
    per_layer = 2 * 2 * 16 * 2 * 512  # f16 keys and values of 2 KV heads of 16
    assert found["memory"]["kv_cache"] == found["gpu"]["kv_cache"] == per_layer
    assert [(device["name"], device["blocks"]) for device in found["devices"]] == [("CPU", 3), (name, 2)]
    assert sum(device["bytes"] for device in found["devices"]) == sum(
        tensor.nbytes for tensor in GGUFFile.open(path).tensors.values()
    )
    assert found["gpu"]["weights"] == found["devices"][1]["bytes"]
    assert (found["gpu"]["available"], found["decode"]) == (8_000_000_000, None)
    monkeypatch.setattr(offload_plan, "free_memory", lambda adapter: 10_000_000)
    text = CliRunner().invoke(plan, [path, "--gpu-layers", "1"]).stdout
    assert "decode, expected  not predicted" in text
    assert f"2 blocks on {name}" in text
    assert "of 10 MB that may be used: too little; choose fewer --gpu-layers" in text
    text = CliRunner().invoke(plan, [path, "--gpu-layers", "all", "--cpu-ffn"]).stdout
    assert f"3 blocks on {name}" in text


def test_the_memory_that_may_be_used_is_a_limit(model_file: ModelFile) -> None:
    """Also if a number of layers is given: a note has the number that fits, or none is placed there."""
    name, path = adapter().name, model_file(**(TINY | {"ffn": 40_000}))
    planned = json.loads(CliRunner().invoke(plan, [str(path), "--gpu-layers", "1", "--json"]).stdout)
    needed = planned["gpu"]["total"]
    given: dict[str, Any] = {"gpu_layers": "all", "gpu_memory": needed / 1e9, "threads": 1}
    with (
        pytest.warns(EdgeLLMWarning, match=r"1 of 3 layers fit 0\.\d+ GB of ") as told,
        Model.open(path, **given) as model,
    ):
        assert [(device["name"], device["blocks"]) for device in model.engine.devices] == [("CPU", 3), (name, 2)]
    assert len(told) == 1
    with pytest.raises(EdgeLLMError, match="1 of 3 layers fit"):
        Model.open(path, **given, gpu_strict=True)
    with pytest.warns(EdgeLLMWarning, match=r"one layer takes 0\.\d+ GB: none fits 0\.01 GB of .*: the CPU computes"):
        Model.open(path, **(given | {"gpu_memory": 0.01})).close()


EXPERTS: dict[str, Any] = TINY | {"arch": "qwen3moe", "ffn": 96, "experts": 8, "used": 2, "layers": 3}


def test_the_plan_with_experts_on_the_cpu(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of each device that a token reads, and the speed that the CPU's part allows."""
    name, path = adapter().name, str(model_file(**EXPERTS))
    monkeypatch.setattr(plan_module, "_speeds", lambda threads, names: dict.fromkeys(names, 1e9))
    given = [path, "--gpu-layers", "all", "--cpu-moe", "--threads", "2"]
    found = json.loads(CliRunner().invoke(plan, [*given, "--json"]).stdout)
    experts, router, norm = 3 * 4 * 96 * 64, 4 * 8 * 64, 4 * 64
    cpu, gpu = found["devices"]
    assert (cpu["name"], cpu["blocks"], gpu["name"], gpu["blocks"]) == ("CPU", 3, name, 4)
    assert cpu["active"] == 3 * (2 * experts + router + norm)
    assert gpu["active"] == gpu["bytes"] == found["gpu"]["weights"]
    assert (found["decode"], found["notes"], found["gpu"]["choice"]) == (None, [], "")
    row, layers = 4 * 64, 3
    seconds = 2 ** (1 / 2.5) * (cpu["active"] + row) / 1e9
    assert found["decode_limit"] == pytest.approx(1 / (seconds + layers * LAYER_S + TOKEN_S), rel=0.01)
    text = CliRunner().invoke(plan, given).stdout
    assert f"decode, expected  at most {found['decode_limit']:,.1f} tokens/s, which is what the CPU allows" in text
    assert f"; {size(cpu['active'])} on the CPU, {size(gpu['active'])} on the GPU" in text
    assert "changes nothing" not in text
    unused = {"--gpu-layers 0 --cpu-moe": "cpu-moe", "--gpu-layers 1 --n-cpu-moe 2": "n-cpu-moe"}
    for words, option in unused.items():
        said = CliRunner().invoke(plan, [path, *words.split()]).stdout
        assert f"note: none of the layers with these experts is on the GPU: --{option} changes nothing" in said
    assert "changes nothing" not in CliRunner().invoke(plan, [path, "--gpu-layers", "2", "--n-cpu-moe", "2"]).stdout
    of_dense = CliRunner().invoke(plan, [str(model_file(**TINY)), "--gpu-layers", "1", "--n-cpu-moe", "2"]).stdout
    assert "note: the model has no experts: --n-cpu-moe changes nothing" in of_dense
    with pytest.warns(EdgeLLMWarning, match="the model has no experts: --cpu-moe changes nothing"):
        Model.open(model_file(**TINY), gpu_layers=0, cpu_moe=True, threads=1).close()


def memory_of(model: Description, layers: int, cpu_moe: int = 0) -> int:
    """Bytes of GPU memory of the last `layers` layers, without the experts of the first `cpu_moe` layers."""
    kept = {2 * i + 1 for i in range(cpu_moe)}
    placement = longest_run([True] * (2 * len(model.layers) + 1), layers, kept=kept)
    return sum(gpu_memory(model, placement, SIZES).values())


@pytest.mark.usefixtures("discrete")
def test_auto_keeps_the_experts_of_some_layers_on_the_cpu(
    model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a crossing costs little: as many as do not fit. Where it costs much: whole layers."""
    path = model_file(**EXPERTS)
    with GGUFFile.open(path) as file:
        model = describe(file)
    monkeypatch.setattr(offload_cost, "CROSSING_S", 1e-12)
    for kept in range(4):
        chosen = planned(model, memory_of(model, 4, kept))
        assert [block for block, device in enumerate(chosen.placement) if device == CPU] == [1, 3, 5][:kept]
        assert bool(chosen.choice) == (kept > 0)
    assert (
        "ms with 3 layers and the output head on the GPU but for the experts of the first 2"
        in planned(model, memory_of(model, 4, 2)).choice
    )
    few = planned(model, memory_of(model, 1, 3))
    assert few.placement.count(GPU) == 1
    assert "1 layer on the GPU but for the experts of the first 3" in few.choice
    monkeypatch.setattr(offload_cost, "CROSSING_S", 1.0)
    whole = planned(model, memory_of(model, 4, 1))
    assert whole.placement == (CPU,) * 7, "nothing pays"
    assert "auto leaves" in whole.notes[0] and "a token takes, by reckoning" in whole.notes[0]
    options = re.findall(r"ms with ([^,]+)", whole.notes[0])
    assert len(options) > 2 and len(set(options)) == len(options), "no two placements in the same words"
    assert planned(model, memory_of(model, 4)).placement == (GPU,) * 7, "all that fits goes there, as without experts"
    monkeypatch.setattr(offload_cost, "CROSSING_S", 1e-9)
    asked = OffloadRequest("auto", memory=memory_of(model, 2, 3), cpu_moe=True)
    found = plan_offload(model, SIZES, asked)
    assert found
    assert [b for b, device in enumerate(found.placement) if device == GPU] == [2, 4], "as asked, whatever it costs"


def planned(model: Description, room: int) -> OffloadPlan:
    """What auto does with so much memory."""
    found = plan_offload(model, SIZES, OffloadRequest("auto", memory=room))
    assert found
    return found


def test_the_list_of_devices() -> None:
    known = adapter()
    cpu, gpu, *_ = json.loads(CliRunner().invoke(devices, ["--json"]).stdout)
    assert (cpu["gpu"], cpu["kind"]) == (None, "CPU")
    assert (gpu["gpu"], gpu["name"], gpu["kind"]) == (0, known.name, known.kind)
    head, first, second, *_ = CliRunner().invoke(devices).stdout.splitlines()
    assert head.split() == ["gpu", "name", "kind", "through", "free", "memory", "features"]
    assert "CPU" in first
    assert second.startswith("0")


def test_stats_and_bench_tell_the_devices(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    name = adapter().name
    monkeypatch.setattr(setup, "memory_benchmark", lambda threads, progress: nullcontext(lambda: 2e9))
    monkeypatch.setattr(machine_limits, "int8_peak", lambda threads: 7e9)
    monkeypatch.setattr(machine_limits, "save_profile", lambda *what: None)
    monkeypatch.setattr(rounds, "_BUSY_S", 0.1)
    monkeypatch.setattr(rounds, "time_cold_start", lambda *what: 1.0)
    path = str(model_file(**TINY))
    given = [path, "-p", "20", "-n", "4", "--rounds", "1", "--threads", "1", "--gpu-layers", "1"]
    cpu, gpu = json.loads(CliRunner().invoke(bench, [*given, "--json"]).stdout)["devices"]["decode"]
    assert (cpu["name"], cpu["blocks"], gpu["name"], gpu["blocks"]) == ("CPU", 3, name, 2)
    assert (gpu["dispatches"], gpu["submissions"], gpu["received"]) == (5, 1, 4 * 64)
    assert gpu["bandwidth"] == pytest.approx(gpu["bytes"] / gpu["ms"] * 1000)
    lines = CliRunner().invoke(bench, given).stdout.splitlines()
    assert "  5.00 dispatches in 1.00 submissions" in lines
    assert max(map(len, lines)) <= 80
    assert not any("MBU" in line for line in lines)
    with Model.open(path, gpu_layers=1, threads=1) as model:
        stats = model.generate("a", max_tokens=3).stats
        assert [device["name"] for device in stats.devices] == ["CPU", name]
        assert stats.mbu is None


class FakeNVML:
    """NVIDIA's library with two GPUs."""

    nvmlInit_v2 = nvmlShutdown = staticmethod(lambda: 0)  # noqa: N815

    @staticmethod
    def nvmlDeviceGetCount_v2(count: Any) -> int:  # noqa: N802
        count._obj.value = 2
        return 0

    @staticmethod
    def nvmlDeviceGetHandleByIndex_v2(index: Any, device: Any) -> int:  # noqa: N802
        device._obj.value = index.value + 1
        return 0

    @staticmethod
    def nvmlDeviceGetName(device: Any, name: Any, size: Any) -> int:  # noqa: N802
        name.value = [b"NVIDIA A", b"NVIDIA B"][device.value - 1]
        return 0

    @staticmethod
    def nvmlDeviceGetMemoryInfo(device: Any, memory: Any) -> int:  # noqa: N802
        memory._obj.free = 1000 * device.value
        return 0


def test_free_memory_where_a_driver_tells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeNVML)
    assert memory.free_memory(Adapter("NVIDIA B", "discrete GPU", "Vulkan", (), 0, None)) == 2000
    assert memory.free_memory(Adapter("NVIDIA C", "discrete GPU", "Vulkan", (), 0, None)) is None
    assert memory.free_memory(some_adapter()) is None
    for card, total in (("card0", 512), ("card1", 8192)):
        device = tmp_path / card / "device"
        device.mkdir(parents=True)
        (device / "mem_info_vram_total").write_text(f"{total}\n")
        (device / "mem_info_vram_used").write_text("12\n")
    assert memory._amd(tmp_path, "AMD Radeon RX") == 8180
    assert memory._amd(tmp_path / "none", "AMD Radeon RX") is None


def test_discrete_gpus_are_found_in_sysfs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def on(platform: str, *devices: str) -> bool:
        monkeypatch.setattr(sys, "platform", platform)
        for i, name in enumerate(devices):
            (tmp_path / "sys/devices" / name).mkdir(parents=True, exist_ok=True)
            card = tmp_path / platform / f"sys/class/drm/card{i}"
            card.mkdir(parents=True, exist_ok=True)
            if not (card / "device").exists():
                (card / "device").symlink_to(tmp_path / "sys/devices" / name)
        return may_have_discrete_gpu(tmp_path / platform)

    assert not on("linux")
    assert not on("linux", "0000:00:02.0")
    metrics = tmp_path / "sys/devices/0000:04:00.0/gpu_metrics"
    metrics.parent.mkdir(parents=True)
    metrics.write_bytes(bytes([120, 0, 2, 1]))
    assert not on("linux", "0000:00:02.0", "0000:04:00.0"), "graphics of an AMD CPU"
    metrics.write_bytes(bytes([120, 0, 1, 3]))
    assert on("linux", "0000:00:02.0", "0000:04:00.0"), "a card of AMD's"
    metrics.unlink()
    assert on("linux", "0000:00:02.0", "0000:04:00.0")
    assert on("win32")


def test_options() -> None:
    chosen = LoadOptions.from_kwargs(gpu_layers="all", gpu="1", gpu_memory=2.5, gpu_strict=True, cpu_ffn=True)
    assert OffloadRequest.of(chosen) == OffloadRequest("all", "1", 2_500_000_000, True, True)
    chosen = LoadOptions.from_kwargs(gpu_layers=3, cpu_moe=True)
    assert OffloadRequest.of(chosen) == OffloadRequest(3, cpu_moe=True)
    assert OffloadRequest.of(LoadOptions.from_kwargs(n_cpu_moe=2)) == OffloadRequest("auto", n_cpu_moe=2)
